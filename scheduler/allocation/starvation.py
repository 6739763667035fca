"""Starved sessions: those that have waited for longer than `starved_after`, and who is next."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.conf import settings

from scheduler.allocation.waiting_lines import BusyQueue
from scheduler.core.fairshare import WaitingLine

Rank = tuple[float, float]
"""What a queue holds above its share, and when the first session of a line was made; the lowest is
next."""


class Starvation:
    """The starved lines of a round at the time `now`: those whose first sessions are starved.

    `holds` tells what part of the pool a queue holds.
    """

    def __init__(self, queues: Sequence[BusyQueue], holds: Callable[[int], float], now: datetime):
        self._since = now.timestamp() - settings.REPRISE["starved_after"]
        self._holds = holds
        weights = {queue.id: 1 / queue.factor for queue in queues}
        whole = sum(weights.values())
        self._shares = {queue: weight / whole for queue, weight in weights.items()}

    def in_order(self, queue_of: Mapping[WaitingLine, int]) -> list[WaitingLine]:
        """Return the starved ones of these lines: of the queue furthest below its share first, then
        the oldest."""
        ranks = self._ranks(queue_of)
        return sorted(ranks, key=ranks.__getitem__)

    def first_below_share(self, queue_of: Mapping[WaitingLine, int]) -> WaitingLine | None:
        """Return the first of these lines, if its queue holds less than its share.

        Where much waits, all of it is starved: a queue that has its share gets nothing by age.
        """
        ranks = self._ranks(queue_of)
        line = min(ranks, key=ranks.__getitem__, default=None)
        return line if line is not None and ranks[line][0] < 0 else None

    def _ranks(self, queue_of: Mapping[WaitingLine, int]) -> dict[WaitingLine, Rank]:
        ranks = {
            line: (self._holds(queue) - self._shares[queue], _made_at(line.heads[0].id))
            for line, queue in queue_of.items()
            if line.heads
        }
        return {line: rank for line, rank in ranks.items() if rank[1] < self._since}


def _made_at(session_id: UUID) -> float:
    """Return the creation time in seconds since the epoch: a UUIDv7 begins with milliseconds."""
    return (session_id.int >> 80) / 1000
