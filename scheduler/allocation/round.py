"""Lease rounds: which waiting sessions an executor gets, by fair share, order and room."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property, partial
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from podspec.resources import Amounts
from scheduler.allocation.alternatives import Alternatives
from scheduler.allocation.executor_room import Site
from scheduler.allocation.holdings import Held, below_at, leases_held, room_beside
from scheduler.allocation.kept_room import KeptRoom
from scheduler.allocation.limits import queue_limit, quota_limit
from scheduler.allocation.patience import Patience
from scheduler.allocation.project_troubles import troubled_projects
from scheduler.allocation.queue_usage import UsageLevels, amounts_used, usage_levels
from scheduler.allocation.reservations import (
    Reserved,
    limited_write,
    parts_kept_elsewhere,
    reservations_write,
    starved,
    takers_of,
)
from scheduler.allocation.scheduling_keys import scheduling_keys_assign
from scheduler.allocation.starvation import Starvation
from scheduler.allocation.waiting_lines import (
    ONE,
    BusyQueue,
    Reading,
    Wish,
    busy_queues,
    heads_read,
    wishes_of,
)
from scheduler.core.fairshare import (
    Claimant,
    Division,
    Grant,
    Limit,
    Standing,
    WaitingLine,
    cost,
    levels_with_history,
)
from scheduler.core.fit import Room
from scheduler.core.placement import MOST_REFUSALS
from scheduler.locks import (
    claim_queues,
    claim_waiting_sessions,
    try_lock,
    waiting_lines_by_index,
)
from scheduler.models import Executor, Placement
from sessions_app.core.quotas import SESSIONS, Quotas
from sessions_app.in_force.quotas import quotas_lock, quotas_read
from sessions_app.locks import AdvisoryLock, LockedSession

MAX_GRANTS = 500
PASSES = 3
"""Passes of a round; the later ones replace sessions that another round claimed first."""
MOST_HEADS = 20_000
"""Maximum number of heads read at first over all lines; at least two of each line are read."""


class _Share(NamedTuple):
    """The shares of the pool that a queue holds on this executor."""

    all: float
    by_retries: float


class Allocation:
    """One lease round: locks at most `MAX_GRANTS` sessions for an executor.

    The round reads the waiting lines without locks and divides the room. Then it locks as many
    sessions of each line as were granted. It skips sessions that another transaction has locked and
    takes the next ones of the line, so that rounds of several executors do not wait for each other.
    """

    def __init__(self, executor: Executor, now: datetime):
        self._executor = executor
        self._now = now
        self._alternatives = Alternatives(executor, now)
        self._patience = Patience(executor, now)
        self._alive = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
        self._before: Reserved = executor.reserved or {}
        """The reservations that the round before has left."""
        takers = takers_of(executor, self._alive) if self._before else {}
        # Not of this object: it would be a cycle, and its sessions garbage to be looked for.
        self._whole = whole = cache(partial(_whole, executor))
        self._kept = KeptRoom(self._before, takers, lambda each: cost(each.amounts, whole()), now)
        self._starvation = Starvation({}, {}, now)
        self._queues: Sequence[BusyQueue] = ()
        self._wishes: Mapping[int, Wish] = {}
        self._given: Counter[tuple[int, int]] = Counter()
        """Number of sessions that the round has locked, by queue and scheduling key."""
        self._quotas = Quotas(())
        self.sessions: list[LockedSession] = []
        self.keys: dict[UUID, int] = {}
        """The scheduling keys of the sessions, by session id."""
        self.nodes: dict[UUID, list[str]] = {}
        """The planned nodes of the sessions that are bound to them, one a rank, by session id."""
        self.avoided: dict[UUID, str] = {}
        """The nodes that some of the sessions avoid, by session id."""
        self.templates: dict[UUID, str] = {}
        """The node templates of which the cluster has to add nodes, by session id."""
        self.left_out: dict[UUID, list[str]] = {}
        """Suspect nodes and those in quarantine, for sessions that no nodes are named to."""
        self.suspects: dict[UUID, dict[str, Any]] = {}
        """The facts about suspect nodes for the events of sessions, by session id."""
        self.left_waiting = 0
        """Number of lines that wait for room here or are left to other executors."""

    def run(self) -> None:
        """Run the round: lock the sessions."""
        scheduling_keys_assign()
        projects = list(self._executor.projects.values_list("pk", flat=True)) or None
        self._queues = busy_queues(projects, without=troubled_projects(self._executor))
        self._kept.show_lines(self._queues)
        # Most rounds find that nothing waits: what the executor holds is read by the others.
        if self._queues:
            if not self._slots:
                return
            self._quotas = quotas_read(projects, waiting=False, live=True)
            self._wishes = wishes_of(self._queues)
            with waiting_lines_by_index():
                self._fill()
        self._admit()
        self._kept.leased({str(session.id) for session in self.sessions})
        reservations_write(self._executor, self._before, self._kept.now)
        limited_write(self._executor, self._kept.limits_changed)

    def _fill(self) -> None:
        for _ in range(PASSES):
            self._kept.leased({str(session.id) for session in self.sessions})
            site = Site(self._executor, self._room(), self._alternatives)
            grants = self._divide(site)
            if not grants or self._claim(site, grants) == len(grants):
                return

    @property
    def counted(self) -> bool:
        """Return whether quotas apply to what is granted."""
        return bool(self._quotas)

    def _admit(self) -> None:
        """Keep only the sessions that quotas still allow.

        The quotas were read without a lock, because a lock would block everything else in the
        project. Meanwhile another executor may have used them up.
        """
        if not self._quotas or not self.sessions:
            return
        quotas = quotas_lock({session.project_id for session in self.sessions})
        wanted, self.sessions = self.sessions, []
        for session in wanted:
            counted = self._wishes[self.keys[session.id]].counted
            if quotas.held(session.project_id, counted) is None:
                quotas.take(session.project_id, counted)
                self.sessions.append(session)
            else:
                self._kept.refused(str(session.id))

    def _room(self) -> Room:
        room, below = room_beside(self._executor, self._held), below_at(self._executor)
        placing = {queue.id: queue.placing for queue in self._queues}
        for session in self.sessions:
            ask = self._wishes[self.keys[session.id]].ask_on(below.under(placing[session.queue_id]))
            template = self.templates.get(session.id, "")
            room.take(ask, nodes=self.nodes.get(session.id, ()), template=template)
        return room

    @cached_property
    def _held(self) -> Sequence[Held]:
        return leases_held(self._executor.pk)[self._executor.pk]

    @cached_property
    def _slots(self) -> int:
        free = self._executor.max_sessions - sum(each.leases for each in self._held)
        return max(min(free, MAX_GRANTS), 0)

    @cached_property
    def _usage(self) -> UsageLevels:
        return usage_levels(self._whole(), self._now, besides=(self._executor.pk, self._held))

    @cached_property
    def _shares(self) -> Mapping[int, _Share]:
        shares: dict[int, _Share] = defaultdict(lambda: _Share(0.0, 0.0))
        for each in self._held:
            size = cost(each.taken, self._usage.pool)
            before = shares[each.queue_id]
            by_retries = before.by_retries + (size if each.retry else 0.0)
            shares[each.queue_id] = _Share(before.all + size, by_retries)
        return shares

    def _divide(self, site: Site) -> list[Grant]:
        """Return the grants of the room that is free, as if no other round took any session."""
        waiting_lines = {queue.id: self._waiting_lines(site, queue) for queue in self._queues}
        for queue, line in self._patience.over(site.hesitant):
            site.relent(line)
            waiting_lines[queue.id].append(line)
        ready = [queue for queue in self._queues if waiting_lines[queue.id]]
        limits = self._limits(ready)
        claimants = [
            claimant
            for queue in ready
            if queue.id in limits
            and (
                claimant := self._claimant(queue, waiting_lines[queue.id], limits[queue.id])
            ).waiting_lines
        ]
        self._remember(claimants)
        # The first sessions of a line are those that an earlier pass has locked.
        queue_of = {line: each.queue for each in claimants for line in each.waiting_lines}
        read = Counter({line: self._given[queue, line.key] for line, queue in queue_of.items()})
        slots = self._slots - len(self.sessions)
        first = self._kept.grant(site, claimants, slots, read)
        # What another round has just locked the limits of keeps its room, too.
        locked = [each for q in ready if q.id not in limits for each in waiting_lines[q.id]]
        fitting = [(queue.id, each) for queue in ready for each in waiting_lines[queue.id]]
        self._keep_room(site, fitting, {*queue_of, *locked})
        division = Division(
            claimants,
            place=site.book,
            slots=slots - len(first),
            retry_share=settings.REPRISE["retry_share"],
        )
        self._read_and_divide(site, division, queue_of, read)
        self.left_waiting = site.left_waiting + sum(queue.id not in limits for queue in ready)
        return [*first, *division.grants]

    def _waiting_lines(self, site: Site, queue: BusyQueue) -> list[WaitingLine]:
        """Return the lines of a queue from which this executor could take sessions now."""
        wishes = [(key, self._wishes[key]) for key in queue.keys if key in self._wishes]
        pool = self._usage.pool
        found = [site.line(queue, key, wish, pool) for key, wish in wishes]
        return [line for line in found if line is not None]

    def _claimant(
        self, queue: BusyQueue, waiting_lines: Sequence[WaitingLine], limits: Sequence[Limit]
    ) -> Claimant:
        mine = [(line, self._given[queue.id, line.key]) for line in waiting_lines]
        share = self._shares[queue.id]
        return Claimant(
            queue.id,
            queue.factor,
            self._usage.held(queue.id) + sum(line.size * count for line, count in mine),
            # A line that already exceeds a limit need not be read.
            [
                line
                for line in waiting_lines
                if not any(each.exceeded_by(line.amounts) for each in limits)
            ],
            limits,
            held=share.all + sum(line.size * count for line, count in mine),
            held_by_retries=share.by_retries
            + sum(line.size * count for line, count in mine if line.retry),
        )

    def _remember(self, claimants: Sequence[Claimant]) -> None:
        """Let history move the levels of queues that are near their share."""
        usage = self._usage
        levels = levels_with_history(
            {
                each.queue: Standing(each.factor, each.level, usage.history(each.queue))
                for each in claimants
            },
            left=usage.left_beside(each.queue for each in claimants),
        )
        for claimant in claimants:
            claimant.level = levels[claimant.queue]

    def _limits(self, queues: Sequence[BusyQueue]) -> dict[int, list[Limit]]:
        """Return the limits by queue id; omit queues whose limits another round holds.

        The queues of a project share the limits of its quotas. A queue with limits of its own stays
        locked until the grants are written, so that no two rounds grant the same remainder.
        """
        shared: dict[int, Limit] = {}
        limits = {
            queue.id: [
                shared.setdefault(quota.id, quota_limit(quota))
                for quota in self._quotas.of(queue.project_id)
            ]
            for queue in queues
        }
        own = self._own_limits({q.id: q for q in queues if q.resource_limits})
        for queue in queues:
            if queue.id in own:
                limits[queue.id].append(own[queue.id])
            elif queue.resource_limits:
                del limits[queue.id]
        return limits

    def _own_limits(self, limited: Mapping[int, BusyQueue]) -> dict[int, Limit]:
        limits = {}
        locked = claim_queues(limited.keys())
        used = amounts_used(queues=locked) if locked else {}
        for queue_id in locked:
            limit = queue_limit(limited[queue_id].resource_limits, used.get(queue_id, {}))
            for (given_to, key), count in self._given.items():
                for _ in range(count if given_to == queue_id else 0):
                    limit.take(self._wishes[key].taken)
            limits[queue_id] = limit
        return limits

    def _keep_room(
        self, site: Site, fitting: Sequence[tuple[int, WaitingLine]], open_lines: set[WaitingLine]
    ) -> None:
        """Keep room for sessions that have a reservation, and reserve nodes for starved ones.

        Otherwise smaller sessions, which fit whenever anything ends, would take the room forever.
        `fitting` are the lines that fit now, by queue. No limit holds back those in `open_lines`.
        """
        full = self._within_limits(site.full)
        open_lines.update(line for _, line in (*full, *self._within_limits(site.hesitant)))
        others = [(queue.id, line) for queue, line in (*site.full, *site.hesitant)]
        waiting = [*others, *fitting]
        self._kept.keep(site, waiting, open_lines)
        self._starvation = self._starvation_of({q for q, line in waiting if line in open_lines})
        lines = self._starved_lines(full)
        if not lines or self._kept.is_enough(lines[0]):
            return
        # Of rounds of several executors one reserves at a time, and the others leave it to their
        # next round. So it sees what they have reserved: nobody gets room on two executors, and
        # together they keep no more than they may.
        if not try_lock(AdvisoryLock.RESERVATIONS):
            return
        lines = self._without_room(lines)
        if lines:
            elsewhere = parts_kept_elsewhere(self._executor, self._usage.pool, self._alive)
            self._starvation.count(elsewhere)
            queue_of = {line: queue.id for queue, line in full}
            wanted = [(queue_of[line], line) for line in lines]
            self._kept.reserve(site, wanted, sum(n for _, n in elsewhere), self._starvation)

    def _within_limits(
        self, waiting: Sequence[tuple[BusyQueue, WaitingLine]]
    ) -> list[tuple[BusyQueue, WaitingLine]]:
        """Return the lines that no limit holds back."""
        limited = {queue.id for queue, _ in waiting if queue.resource_limits}
        used = amounts_used(queues=limited) if limited else {}
        return [
            (queue, line)
            for queue, line in waiting
            if not any(limit.exceeded_by(line.amounts) for limit in self._known(queue, used))
        ]

    def _starved_lines(self, full: Sequence[tuple[BusyQueue, WaitingLine]]) -> list[WaitingLine]:
        """Return the lines whose heads are starved and have no reservation, here or elsewhere: of
        the queue furthest below its share first, then the oldest."""
        queue_of = {line: q.id for q, line in full if self._starvation.below_share(q.id)}
        if not queue_of:
            return []
        heads_read([Reading(queue, line, 0, 1) for line, queue in queue_of.items()])
        found = self._starvation.in_order(queue_of)
        kept = self._kept.now
        return self._without_room([each for each in found if str(each.heads[0].id) not in kept])

    def _without_room(self, lines: Sequence[WaitingLine]) -> list[WaitingLine]:
        """Return the lines for whose heads no room is kept elsewhere."""
        since = self._now - timedelta(seconds=settings.REPRISE["starved_after"])
        heads = [line.heads[0].id for line in lines]
        found = starved(heads, self._executor, since=since, alive=self._alive) if lines else ()
        return [line for line in lines if line.heads[0].id in found]

    def _known(self, queue: BusyQueue, used: Mapping[int, Amounts]) -> list[Limit]:
        """Return the limits of a queue as read without locks; other rounds may be using them up."""
        own = queue_limit(queue.resource_limits, used.get(queue.id, {}))
        return [own, *(quota_limit(quota) for quota in self._quotas.of(queue.project_id))]

    def _starvation_of(self, competing: set[int]) -> Starvation:
        """Return who is starved, by what these queues hold with what the round has given them."""
        factors = {each.id: each.factor for each in self._queues if each.id in competing}
        holds = {queue: self._usage.held(queue) for queue in factors}
        found = Starvation(factors, holds, self._now)
        given = ((each, self._wishes[each[1]].taken) for each in self._given.elements())
        found.count((queue, cost(taken, self._usage.pool)) for (queue, _), taken in given)
        found.count(self._kept.sizes)
        return found

    def _read_and_divide(
        self,
        site: Site,
        division: Division,
        queue_of: Mapping[WaitingLine, int],
        read: Counter[WaitingLine],
    ) -> None:
        """Divide, and read lines further where needed: each time twice as far."""
        if not queue_of:
            return
        fair = 2 * self._slots // len(set(queue_of.values())) + 2
        count = max(min(self._slots, fair, MOST_HEADS // len(queue_of)), 2)
        while unread := division.go_on():
            wanted = {line: max(count, min(read[line], self._slots)) for line in unread}
            heads_read([Reading(queue_of[line], line, read[line], wanted[line]) for line in unread])
            if not division.grants:
                self._promise(site, {line: queue_of[line] for line in unread})
            read.update(wanted)

    def _promise(self, site: Site, queue_of: Mapping[WaitingLine, int]) -> None:
        """Keep room for a starved session that fits, before smaller ones of other queues take a
        part of it."""
        for line in self._starvation.in_order(queue_of)[:1]:
            site.promise(line)

    def _claim(self, site: Site, grants: Sequence[Grant]) -> int:
        """Lock as many sessions of each line as were granted. Return the number locked."""
        counts = Counter((grant.claimant.queue, grant.line) for grant in grants)
        claimed = claim_waiting_sessions(
            [(queue, line.key, count) for (queue, line), count in counts.items()],
            passed=[session.id for session in self.sessions],
        )
        found = {line: iter(each) for (_, line), each in zip(counts, claimed, strict=True)}
        # Only the cluster knows which node a session gets that waits for one to be added.
        kept = self._kept.nodes
        for claimant, line in grants:
            session, plan = next(found[line], None), site.planned(line)
            if session is None:
                continue
            if plan.nodes and self._names_nodes(session):
                self.nodes[session.id] = list(plan.nodes)
            elif names := site.nodes_left_out(line, kept if plan.template else ()):
                self.left_out[session.id] = names
            if plan.template:
                self.templates[session.id] = plan.template
            self.sessions.append(session)
            self.keys[session.id] = line.key
            self._given[claimant.queue, line.key] += 1
            self._quotas.take(session.project_id, self._wishes[line.key].counted)
            if node := site.node_avoided(line):
                self.avoided[session.id] = node
            if told := site.suspects_met(line, self.nodes.get(session.id, ())):
                self.suspects[session.id] = told
        return sum(len(each) for each in claimed)

    def _names_nodes(self, session: LockedSession) -> bool:
        """Return whether the session is bound to its nodes; not after too many refused plans."""
        refused = session.placement_refusals or 0
        return self._executor.placement == Placement.NODE and refused < MOST_REFUSALS


def _whole(executor: Executor) -> Amounts:
    """Return all that an executor has."""
    own = Room(executor.nodes, ()).whole
    return {**own, SESSIONS: ONE * executor.max_sessions}
