"""Storm limits: which minute each of many retries may go in. Pure.

A limit is a number of retries a minute, of the whole cluster or of each queue. A retry takes a slot
of both in the same minute, the first one that has both. So a queue whose backlog has filled its own
minutes leaves what it cannot use to the others.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MINUTE = 60_000_000
"""Microseconds."""

Key = tuple[int | None, int]
"""A queue (None: the cluster) and a minute, counted from the epoch."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Retries a minute of the cluster and of each queue, at least 1; None: no limit."""

    cluster: int | None = None
    queue: int | None = None

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.cluster is not None or self.queue is not None

    def limits(self, queue: int) -> list[tuple[int | None, int]]:
        """What holds for a retry of `queue`: the limits by the queue that they count, if any."""
        both = ((None, self.cluster), (queue, self.queue))
        return [(counted, limit) for counted, limit in both if limit is not None]


class Slot(NamedTuple):
    """A place in a minute (from the epoch), and how far into it, in microseconds."""

    minute: int
    offset: int


class SlotBook:
    """Gives slots under a limited pace from the minute `first` on, beside those `taken` already.

    Afterwards `given` holds how many it gave, by queue and minute.
    """

    def __init__(self, pace: Pace, first: int, taken: Mapping[Key, int]):
        self._pace = pace
        self._taken = Counter(taken)
        # Nothing is given back here: a minute that was passed over stays without room.
        self._cluster_open = first
        self._open: dict[int | None, int] = {}
        self.given: Counter[Key] = Counter()

    def take(self, queue: int) -> Slot:
        """The first free slot for a retry of `queue`, in its place of an evenly filled minute."""
        limits = self._pace.limits(queue)
        lane = None if self._pace.queue is None else queue
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
        limit = self._pace.cluster
        while limit is not None and self._taken[None, self._cluster_open] >= limit:
            self._cluster_open += 1
        return self._cluster_open
