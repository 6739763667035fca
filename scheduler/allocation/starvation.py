"""Starved sessions: those that wait longer than `starved_after` in a queue below its share.

Where work waits for long, all of it has waited for too long. If age alone counted, each queue would
get equal turns then, and their factors would count for nothing.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.conf import settings

from scheduler.core.fairshare import FLOOR, WaitingLine, above_shares

_ROUNDING = 1e-9
Rank = tuple[float, float]
"""What a queue holds above its share, and when the first session of a line was made; the lowest is
next."""


class Starvation:
    """The starved lines of a round at the time `now`: those whose first sessions are starved.

    `factors` are those of the queues that compete for the executor, by queue, and `holds` is what
    they hold of the pool. A queue's share is its part of all that they hold together: what others
    hold, and what nobody can use, makes no queue starved.
    """

    def __init__(self, factors: Mapping[int, float], holds: Mapping[int, float], now: datetime):
        self._since = now.timestamp() - settings.REPRISE["starved_after"]
        self._holds = dict(holds)
        self._above = above_shares(factors, holds)

    def count(self, more: Iterable[tuple[int, float]]) -> None:
        """Count what queues have got since, or what is kept for them, given as (queue, size)."""
        for queue, size in more:
            if queue in self._above:
                self._holds[queue] += size
                self._above[queue] += size

    def below_share(self, queue: int) -> bool:
        """Return whether a queue holds less than its share, with what is kept for it.

        So does one that holds nothing, also if the others hold nothing either. One that competes
        with nobody takes from itself only.
        """
        below = self._above[queue] < -_ROUNDING or self._holds[queue] <= FLOOR
        return below or len(self._above) == 1

    def in_order(self, queue_of: Mapping[WaitingLine, int]) -> list[WaitingLine]:
        """Return the starved ones of these lines: of the queue furthest below its share first, then
        the oldest."""
        ranks: dict[WaitingLine, Rank] = {
            line: (self._above[queue], _made_at(line.heads[0].id))
            for line, queue in queue_of.items()
            if line.heads and self.below_share(queue)
        }
        starved = [line for line, rank in ranks.items() if rank[1] < self._since]
        return sorted(starved, key=ranks.__getitem__)


def _made_at(session_id: UUID) -> float:
    """Return the creation time in seconds since the epoch: a UUIDv7 begins with milliseconds."""
    return (session_id.int >> 80) / 1000
