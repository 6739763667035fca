"""Storm limits: which minute each of many retries may use. Pure.

A limit is a number of retries a minute, for the whole cluster or for each queue. A retry takes a
slot of both in the first minute that has both. So a queue whose backlog fills its own minutes
leaves the rest of the cluster's slots to the others.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MINUTE = 60_000_000
"""A minute in microseconds."""

Key = tuple[int | None, int]
"""A queue (None: the cluster) and a minute, counted from the epoch."""


@dataclass(frozen=True, slots=True)
class StormLimits:
    """The storm limits: retries a minute of cluster and queue, at least 1; None: no limit."""

    cluster: int | None = None
    queue: int | None = None

    @property
    def limited(self) -> bool:
        """Return whether there is any limit."""
        return self.cluster is not None or self.queue is not None

    def limits(self, queue: int) -> list[tuple[int | None, int]]:
        """Return the limits for a retry of `queue`, each by what it counts (None: all)."""
        both = ((None, self.cluster), (queue, self.queue))
        return [(counted, limit) for counted, limit in both if limit is not None]


class Slot(NamedTuple):
    """A slot: a minute since the epoch, and the offset into it in microseconds."""

    minute: int
    offset: int


class SlotBook:
    """Gives out slots from the minute `first` on, beside those that are `taken` already.

    Afterwards `given` holds the number of slots given, by queue and minute.
    """

    def __init__(self, storm_limits: StormLimits, first: int, taken: Mapping[Key, int]):
        self._storm_limits = storm_limits
        self._taken = Counter(taken)
        # Slots are never returned here, so a minute that was full stays full.
        self._cluster_open = first
        self._open: dict[int | None, int] = {}
        self.given: Counter[Key] = Counter()

    def take(self, queue: int) -> Slot:
        """Return the first free slot for a retry of `queue`; slots fill a minute evenly."""
        limits = self._storm_limits.limits(queue)
        lane = None if self._storm_limits.queue is None else queue
        minute = max(self._open.get(lane, 0), self._first_of_cluster())
        while any(self._taken[counted, minute] >= limit for counted, limit in limits):
            minute += 1
        self._open[lane] = minute
        offset = max(self._taken[counted, minute] * MINUTE // limit for counted, limit in limits)
        keys = [(counted, minute) for counted, _ in limits]
        self._taken.update(keys)
        self.given.update(keys)
        return Slot(minute, offset)

    def _first_of_cluster(self) -> int:
        limit = self._storm_limits.cluster
        while limit is not None and self._taken[None, self._cluster_open] >= limit:
            self._cluster_open += 1
        return self._cluster_open
