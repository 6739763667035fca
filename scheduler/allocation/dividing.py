"""Divides the free room of an executor among the queues that wait for it, by fair share."""

from collections import Counter
from collections.abc import Mapping, Sequence

from django.conf import settings

from scheduler.allocation.claims import Claims
from scheduler.allocation.demand import Demand
from scheduler.allocation.executor_room import Site
from scheduler.allocation.kept_room import KeptRoom
from scheduler.allocation.limits import limits_locked
from scheduler.allocation.patience import Patience
from scheduler.allocation.starvation import Starvation
from scheduler.allocation.starved_room import StarvedRoom
from scheduler.allocation.supply import Supply
from scheduler.allocation.waiting_lines import MOST_HEADS, BusyQueue, LineReader
from scheduler.core.fairshare import (
    Claimant,
    Division,
    Grant,
    Limit,
    Standing,
    WaitingLine,
    levels_with_history,
)

Waiting = Sequence[tuple[BusyQueue, Sequence[WaitingLine]]]
"""Queues with the lines from which the executor could take sessions now."""


class Divider:
    """Divides what the supply leaves free among the demand, once for each pass of a round."""

    def __init__(self, demand: Demand, supply: Supply, kept: KeptRoom, claims: Claims):
        self._demand = demand
        self._supply = supply
        self._kept = kept
        self._claims = claims
        self._patience = Patience(supply.executor, supply.now)
        self._starved = StarvedRoom(demand, supply, kept, claims)
        self.left_waiting = 0
        """Number of lines that wait for room here or are left to other executors."""

    def divide(self, site: Site) -> list[Grant]:
        """Return the grants of the room that is free, as if no other round took any session."""
        waiting = self._waiting(site)
        ready = [queue for queue, _ in waiting]
        limits = limits_locked(ready, self._demand.quotas, self._claims)
        claimants = self._claimants(waiting, limits)
        reader = self._reader(claimants)
        slots = self._supply.slots - len(self._claims.sessions)
        first = self._kept.grant(site, claimants, slots, reader)
        # What another round has just locked the limits of keeps its room, too.
        locked = [line for queue, lines in waiting if queue.id not in limits for line in lines]
        fitting = [(queue.id, line) for queue, lines in waiting for line in lines]
        starvation = self._starved.keep(site, fitting, {*reader.queue_of, *locked})
        division = Division(
            claimants,
            place=site.book,
            slots=slots - len(first),
            retry_share=settings.REPRISE["retry_share"],
        )
        self._read_and_divide(site, division, reader, starvation)
        self.left_waiting = site.left_waiting + sum(queue.id not in limits for queue in ready)
        return [*first, *division.grants]

    def _waiting(self, site: Site) -> Waiting:
        lines = {queue.id: self._lines(site, queue) for queue in self._demand.queues}
        for queue, line in self._patience.over(site.hesitant):
            site.relent(line)
            lines[queue.id].append(line)
        return [(queue, lines[queue.id]) for queue in self._demand.queues if lines[queue.id]]

    def _lines(self, site: Site, queue: BusyQueue) -> list[WaitingLine]:
        wishes, pool = self._demand.wishes, self._supply.usage.pool
        found = [site.line(queue, key, wishes[key], pool) for key in queue.keys if key in wishes]
        return [line for line in found if line is not None]

    def _claimants(self, waiting: Waiting, limits: Mapping[int, Sequence[Limit]]) -> list[Claimant]:
        """Return the queues that may get something, at levels that remember what they had."""
        found = (
            self._claimant(queue, lines, limits[queue.id])
            for queue, lines in waiting
            if queue.id in limits
        )
        claimants = [each for each in found if each.waiting_lines]
        usage = self._supply.usage
        levels = levels_with_history(
            {
                each.queue: Standing(each.factor, each.level, usage.history(each.queue))
                for each in claimants
            },
            left=usage.left_beside(each.queue for each in claimants),
        )
        for claimant in claimants:
            claimant.level = levels[claimant.queue]
        return claimants

    def _claimant(
        self, queue: BusyQueue, lines: Sequence[WaitingLine], limits: Sequence[Limit]
    ) -> Claimant:
        given = [(line, line.size * self._claims.count(queue.id, line)) for line in lines]
        more, share = sum(size for _, size in given), self._supply.shares[queue.id]
        return Claimant(
            queue.id,
            queue.factor,
            self._supply.usage.held(queue.id) + more,
            # A line that already exceeds a limit need not be read.
            [line for line in lines if not any(each.exceeded_by(line.amounts) for each in limits)],
            limits,
            held=share.all + more,
            held_by_retries=share.by_retries + sum(size for line, size in given if line.retry),
        )

    def _reader(self, claimants: Sequence[Claimant]) -> LineReader:
        queue_of = {line: each.queue for each in claimants for line in each.waiting_lines}
        # The first sessions of a line are those that an earlier pass has locked.
        passed = {line: self._claims.count(queue, line) for line, queue in queue_of.items()}
        return LineReader(queue_of, Counter(passed))

    def _read_and_divide(
        self, site: Site, division: Division, reader: LineReader, starvation: Starvation
    ) -> None:
        """Divide, and read lines further where needed: each time twice as far."""
        queue_of, slots = reader.queue_of, self._supply.slots
        if not queue_of:
            return
        fair = 2 * slots // len(set(queue_of.values())) + 2
        count = max(min(slots, fair, MOST_HEADS // len(queue_of)), 2)
        while unread := division.go_on():
            reader.read({line: max(count, min(reader.passed[line], slots)) for line in unread})
            if not division.grants:
                # A starved session that fits gets its room before smaller ones of other queues
                # take a part of it.
                for line in starvation.in_order({each: queue_of[each] for each in unread})[:1]:
                    site.promise(line)
