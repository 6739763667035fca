"""Room for starved sessions: whom it is kept for, and who gets a reservation now."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from django.conf import settings

from scheduler.allocation.claims import Claims
from scheduler.allocation.demand import Demand
from scheduler.allocation.executor_room import Site
from scheduler.allocation.kept_room import KeptRoom
from scheduler.allocation.limits import LimitsSeen
from scheduler.allocation.reservations import parts_kept_elsewhere, starved
from scheduler.allocation.starvation import Starvation
from scheduler.allocation.supply import Supply
from scheduler.allocation.waiting_lines import Reading, heads_read
from scheduler.core.fairshare import WaitingLine, cost
from scheduler.locks import try_lock
from sessions_app.locks import AdvisoryLock


class StarvedRoom:
    """Keeps room for sessions that have a reservation, and reserves nodes for starved ones.

    Otherwise smaller sessions, which fit whenever anything ends, would take the room forever.
    """

    def __init__(self, demand: Demand, supply: Supply, kept: KeptRoom, claims: Claims):
        self._demand = demand
        self._supply = supply
        self._kept = kept
        self._claims = claims

    def keep(
        self, site: Site, fitting: Iterable[tuple[int, WaitingLine]], open_lines: set[WaitingLine]
    ) -> Starvation:
        """Keep the room. Return who is starved.

        `fitting` are the lines that fit now, by queue. No limit holds back those in `open_lines`.
        """
        others = [*site.full, *site.hesitant]
        limits = LimitsSeen((queue for queue, _ in others), self._demand.quotas)
        free = {line for q, line in others if not limits.exceeded(q.id, line.amounts)}
        full = {line: queue.id for queue, line in site.full if line in free}
        waiting = [*((queue.id, line) for queue, line in others), *fitting]
        unlimited = open_lines | free
        self._kept.keep(site, waiting, unlimited)
        starvation = self._starvation({q for q, line in waiting if line in unlimited})
        lines = self._starved_lines(full, starvation)
        if lines and not self._kept.is_enough(lines[0]):
            self._reserve(site, {line: full[line] for line in lines}, starvation)
        return starvation

    def _starvation(self, competing: set[int]) -> Starvation:
        """Return who is starved, by what these queues hold with what the round has given them."""
        usage = self._supply.usage
        factors = {each.id: each.factor for each in self._demand.queues if each.id in competing}
        holds = {queue: usage.held(queue) for queue in factors}
        found = Starvation(factors, holds, self._supply.now)
        found.count((queue, cost(taken, usage.pool)) for queue, taken in self._claims.taken())
        found.count(self._kept.sizes)
        return found

    def _starved_lines(
        self, full: Mapping[WaitingLine, int], starvation: Starvation
    ) -> list[WaitingLine]:
        """Return the lines whose heads are starved and have no reservation, here or elsewhere: of
        the queue furthest below its share first, then the oldest."""
        queue_of = {line: queue for line, queue in full.items() if starvation.below_share(queue)}
        if not queue_of:
            return []
        heads_read([Reading(queue, line, 0, 1) for line, queue in queue_of.items()])
        found, kept = starvation.in_order(queue_of), self._kept.now
        return self._without_room([each for each in found if str(each.heads[0].id) not in kept])

    def _without_room(self, lines: Sequence[WaitingLine]) -> list[WaitingLine]:
        """Return the lines for whose heads no room is kept elsewhere."""
        if not lines:
            return []
        since = self._supply.now - timedelta(seconds=settings.REPRISE["starved_after"])
        heads = [line.heads[0].id for line in lines]
        found = starved(heads, self._supply.executor, since=since, alive=self._supply.alive)
        return [line for line in lines if line.heads[0].id in found]

    def _reserve(
        self, site: Site, queue_of: Mapping[WaitingLine, int], starvation: Starvation
    ) -> None:
        # Of rounds of several executors one reserves at a time, and the others leave it to their
        # next round. So it sees what they have reserved: nobody gets room on two executors, and
        # together they keep no more than they may.
        if not try_lock(AdvisoryLock.RESERVATIONS):
            return
        lines = self._without_room(list(queue_of))
        if lines:
            supply = self._supply
            elsewhere = parts_kept_elsewhere(supply.executor, supply.usage.pool, supply.alive)
            starvation.count(elsewhere)
            wanted = [(queue_of[line], line) for line in lines]
            self._kept.reserve(site, wanted, sum(size for _, size in elsewhere), starvation)
