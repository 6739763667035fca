"""Preemption by Reprise itself: running sessions make room for one that waits.

One sweep plans for all executors, under an advisory lock, and makes as many plans on each as its
rate allows. A plan is carried out whole or not at all, and the room is kept free for its taker. The
victims come back by `retry/engine/decide.py`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from scheduler.allocation.holdings import Held, leases_held, room_beside
from scheduler.allocation.limits import LimitsSeen
from scheduler.allocation.preemption_world import (
    Free,
    Head,
    candidates,
    heads_without_room,
    released_since,
)
from scheduler.allocation.project_troubles import troubled_projects
from scheduler.allocation.reservations import reservations_write
from scheduler.allocation.waiting_lines import busy_queues
from scheduler.core.fit import Avoid, Opening, Room
from scheduler.core.preemption import Plan, Running, Shares, queues_below
from scheduler.core.preemption_plans import FAIR_SHARE, PRIORITY, Plans, Rate, Rule
from scheduler.locks import lock_executor_for_round, try_lock, waiting_lines_by_index
from scheduler.models import Executor, Preemption, Preempts, Reservation
from scheduler.services.leases import leases_delete
from scheduler.services.preemption_view import View, newest_preemption, view_now
from scheduler.services.silence import silent_before
from sessions_app.core.quotas import Quotas
from sessions_app.core.states import Phase, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.quotas import quotas_read
from sessions_app.instruments import PREEMPTIONS
from sessions_app.locks import AdvisoryLock, LockedSession, database_now, lock_sessions
from sessions_app.models import Queue
from sessions_app.services.sessions.preempt import WayGiven, preempt_locked
from sessions_app.services.write.audit import AuditRow, audit_append

BY = "scheduler"
KEPT_FOR = timedelta(seconds=120)
"""How long the room is kept free for its taker once the last victim must have stopped."""
REMEMBERED_FOR = timedelta(days=30)
MOST_PLANS = 50
"""Plans of one sweep on one executor at most: its row is locked for so long, some 30 ms a plan if
10,000 sessions run there."""
_MINUTE = timedelta(minutes=1)


class MadeRoom(NamedTuple):
    """What one sweep did."""

    plans: int
    victims: int


def room_make() -> MadeRoom:
    """Plan preemptions on all executors that do so, and carry them out. Return their numbers."""
    chosen = _preempting()
    if not chosen:
        return MadeRoom(0, 0)
    plans = victims = 0
    view: View | None = None
    for name in chosen:
        # One transaction for each executor: its row is locked no longer than for a lease round.
        with atomic_step("make_room") as writes:
            if not try_lock(AdvisoryLock.PREEMPTION):
                break
            # Between two executors another sweep may have planned, too.
            if view is None or view.newest != newest_preemption():
                view = view_now()
            executor = lock_executor_for_round(name)
            if executor is None or executor.cordoned or executor.trouble:
                continue
            sweep = _Sweep(executor, view)
            if sweep.mode == Preempts.OFF:  # since a moment ago
                continue
            done = sweep.run(writes)
        for each in done:
            PREEMPTIONS.labels(each.rule, sweep.mode).inc(len(each.plan.victims))
            plans, victims = plans + 1, victims + len(each.plan.victims)
    Preemption.objects.filter(planned_at__lt=database_now() - REMEMBERED_FOR).delete()
    return MadeRoom(plans, victims)


def _preempting() -> list[str]:
    """Return the names of the executors whose sessions make room, or would in a dry run."""
    on = ~Q(preemption__in=["", Preempts.OFF])
    if settings.REPRISE_PREEMPTION != Preempts.OFF:
        on |= Q(preemption="")
    alive = Executor.objects.filter(on, last_seen_at__gte=silent_before(database_now()))
    return list(alive.order_by("pk").values_list("name", flat=True))


class _Planned(NamedTuple):
    """A plan, with its taker and the rule that it follows."""

    head: Head
    rule: Rule
    plan: Plan

    @property
    def nodes(self) -> list[str]:
        """Return the nodes that are kept for the taker; an executor without nodes has none."""
        return [name for name in self.plan.nodes if name]

    def stands(self, locked: Mapping[UUID, LockedSession], tokens: Mapping[UUID, int]) -> bool:
        """Return whether the taker still waits and all victims still run under these tokens."""
        victims = self.plan.victims
        return not victims or (
            _still_waits(locked.get(self.head.id))
            and all(_may_stop(locked.get(each.id), tokens[each.id]) for each in victims)
        )

    def longest(self, graces: Mapping[UUID, float]) -> timedelta:
        """Return how long the slowest victim may take to stop."""
        return timedelta(seconds=max(graces[each.id] for each in self.plan.victims))

    @property
    def touched(self) -> set[str]:
        """Return all nodes on which the plan changes anything."""
        return {*self.plan.nodes, *chain.from_iterable(v.nodes for v in self.plan.victims)}


class _Sweep:
    """The plans of one executor, whose row is locked."""

    def __init__(self, executor: Executor, view: View):
        self._executor = executor
        self._view = view
        self._leases: Sequence[Held] = leases_held(executor.pk)[executor.pk]
        self._reserved = dict(executor.reserved or {})
        self.mode: str = executor.preemption or settings.REPRISE_PREEMPTION
        self._dry = self.mode == Preempts.DRY_RUN
        self._takers = view.takers(dry=self._dry)
        self._limits = LimitsSeen((), Quotas(()))
        self._urgent: set[UUID] = set()

    def run(self, writes: Writes) -> list[_Planned]:
        """Make the plans and carry them out. Return those that were."""
        self._free_expired()
        rate = self._rate()
        lines = [] if rate.used_up else self._lines()
        if not lines:
            return []
        running = candidates(self._executor, self._view.now, self._view.usage.pool)
        planned = self._plan(lines, [each.running for each in running], rate)
        if not self._dry:
            tokens = {each.running.id: each.fencing_token for each in running}
            planned = self._carry_out(writes, planned, tokens)
        made = [each for each in planned if each.plan.victims]
        if made:
            self._record(made, {each.running.id: each.grace for each in running})
        return made

    def _rate(self) -> Rate:
        recent = Preemption.objects.filter(
            executor=self._executor, planned_at__gt=self._view.now - _MINUTE
        ).count()
        return Rate(recent, settings.REPRISE["preempt_rate"] * self._running)

    @property
    def _running(self) -> int:
        return sum(each.leases for each in self._leases)

    @property
    def _free_slots(self) -> int:
        """Return the session slots that are free once all plans are carried out."""
        underway = self._view.underway.slots(self._executor.pk)
        return self._executor.max_sessions - self._running + underway

    def _lines(self) -> list[deque[Head]]:
        """Return the sessions for which room may be made, by line."""
        projects = list(self._executor.projects.values_list("pk", flat=True)) or None
        queues = busy_queues(projects, without=troubled_projects(self._executor))
        if not queues:
            return []
        quotas = quotas_read(projects, waiting=False, live=True)
        self._limits = LimitsSeen(queues, quotas)
        for each in self._takers.values():
            self._limits.take(each.queue, each.taken)
        free = Free(self._room(), self._free_slots, self._view.usage.pool)
        # Those in front may have room made for them already.
        most = MOST_PLANS + len(self._takers)
        with waiting_lines_by_index():
            found = heads_without_room(self._executor, free, queues, self._limits, most)
        self._note_urgent([each for heads in found for each in heads])
        kept = (deque(each for each in heads if self._may_take(each)) for heads in found)
        return [line for line in kept if line]

    def _note_urgent(self, heads: Iterable[Head]) -> None:
        """Note the sessions that may preempt, and have waited for long enough."""
        since = self._view.now - timedelta(seconds=settings.REPRISE["preempt_after"])
        ranks = self._view.may_preempt
        old = [e for e in heads if e.taker.rank in ranks and e.made_at <= since.timestamp()]
        self._urgent = {each.id for each in old} - released_since(old, since)

    def _may_take(self, head: Head) -> bool:
        return self._rule(head) is not None and head.id not in self._takers

    def _rule(self, head: Head) -> Rule | None:
        if head.id in self._urgent:
            return PRIORITY
        return FAIR_SHARE if head.taker.queue in self._view.reclaiming else None

    def _room(self, without: str = "") -> Room:
        """Return the room here, without nodes that are kept free for others."""
        room = room_beside(self._executor, self._leases)
        for session, nodes in self._reserved.items():
            if session != without:
                room.close(nodes)
        return room

    def _plan(
        self, lines: list[deque[Head]], running: Sequence[Running], rate: Rate
    ) -> list[_Planned]:
        """Plan for one session after the other, as many as the rate allows."""
        dry = self._view.underway_dry.victims if self._dry else {}
        left = [each for each in running if each.id not in dry]
        held = self._view.held_dry if self._dry else self._view.held
        plans = Plans(left, held, self._free_slots)
        openings, planned = _Openings(self._room, self._reserved), list[_Planned]()
        while lines and len(planned) < MOST_PLANS and not rate.used_up:
            line = min(lines, key=lambda each: self._turn(each[0], plans.shares))
            head = line[0]
            rule = self._wants(head, plans.shares)
            plan = plans.plan(head.taker, rule, openings.of(head)) if rule else None
            if rule is None or plan is None or not rate.allows(len(plan.victims)):
                # The others of its line ask for the same.
                lines.remove(line)
                continue
            plans.book(head.taker, plan)
            self._limits.take(head.taker.queue, head.taken)
            rate = rate.after(len(plan.victims))
            planned.append(_Planned(head, rule, plan))
            line.popleft()
            if not line:
                lines.remove(line)
        return planned

    def _turn(self, head: Head, held: Shares) -> tuple[int, bool, float, float, UUID]:
        """Return what takers are sorted by: the highest class, those of a class that preempts, the
        queue furthest below its share, the oldest."""
        by_share = self._rule(head) is not PRIORITY
        fair = held.fair.get(head.taker.queue) or 1.0
        part = held.held.get(head.taker.queue, 0.0) / fair if by_share else 0.0
        return -head.taker.rank, by_share, part, head.made_at, head.id

    def _wants(self, head: Head, held: Shares) -> Rule | None:
        """Return the rule that still lets a session take room, with what its queue will hold."""
        if self._limits.exceeded(head.taker.queue, head.taken):
            return None
        rule = self._rule(head)
        if rule is not FAIR_SHARE:
            return rule
        part = settings.REPRISE["reclaim_below"]
        return rule if queues_below(held, [head.taker.queue], part) else None

    def _carry_out(
        self, writes: Writes, planned: Sequence[_Planned], tokens: Mapping[UUID, int]
    ) -> list[_Planned]:
        """Preempt the victims and keep their room. Return the plans that were carried out.

        A plan is dropped if anything of it has changed meanwhile, or if it needs the room of
        another one that was dropped.
        """
        wanted = {each.head.id for each in planned if each.plan.victims}
        wanted.update(victim.id for each in planned for victim in each.plan.victims)
        locked = {each.id: each for each in lock_sessions([*wanted], skip_locked=True)}
        whole: list[_Planned] = []
        spoiled, slots = set[str](), self._free_slots
        for each in planned:
            enough = slots + len(each.plan.victims) > 0 and spoiled.isdisjoint(each.touched)
            if enough and each.stands(locked, tokens):
                whole.append(each)
                slots += len(each.plan.victims) - 1
            else:
                spoiled |= each.touched
        made = [each for each in whole if each.plan.victims]
        self._preempt(writes, made, locked)
        before = dict(self._reserved)
        self._reserved |= {str(each.head.id): each.nodes for each in made}
        reservations_write(self._executor, before, self._reserved)
        return made

    def _preempt(
        self, writes: Writes, made: Sequence[_Planned], locked: Mapping[UUID, LockedSession]
    ) -> None:
        now = self._view.now
        ways, rules, victims = dict[UUID, WayGiven](), dict[UUID, Rule](), list[LockedSession]()
        for each in made:
            for victim in (locked[one.id] for one in each.plan.victims):
                own = victim.project_id == each.head.project_id
                ways[victim.id] = WayGiven(each.head.id, self._reason(each, own=own))
                rules[victim.id] = each.rule
                victims.append(victim)
        preempt_locked(writes, victims, by=BY, now=now, ways=ways)
        entries = [_audit(each, rules[each.id], ways[each.id].reason) for each in victims]
        audit_append(writes, entries, now=now)
        leases_delete([each.id for each in victims if each.accepted_at is None])

    def _reason(self, planned: _Planned, *, own: bool) -> str:
        """Return the words for people: of another project they name only the class."""
        head = planned.head
        name = self._view.names.get(head.taker.rank, "")
        who = f"session {head.id}" if own else f"a session of class {name} in another project"
        return f"made room for {who}, by {'priority' if planned.rule == PRIORITY else 'fair share'}"

    def _record(self, made: Sequence[_Planned], graces: Mapping[UUID, float]) -> None:
        queues = {each.queue for planned in made for each in planned.plan.victims}
        projects = dict(Queue.objects.filter(pk__in=queues).values_list("pk", "project_id"))
        now = self._view.now
        Preemption.objects.bulk_create(
            Preemption(
                executor=self._executor,
                executor_name=self._executor.name,
                planned_at=now,
                until=now + planned.longest(graces) + KEPT_FOR,
                rule=planned.rule,
                dry_run=self._dry,
                nodes=planned.nodes,
                taker_id=planned.head.id,
                taker_project_id=planned.head.project_id,
                taker_rank=planned.head.taker.rank,
                victim_id=each.id,
                victim_project_id=projects[each.queue],
                victim_rank=each.rank,
            )
            for planned in made
            for each in planned.plan.victims
        )

    def _free_expired(self) -> None:
        """Give up room that was kept for a taker for too long.

        What was reserved since then is of a session that is starved.
        """
        over = Preemption.objects.filter(
            executor=self._executor,
            taker_id__in=[UUID(each) for each in self._reserved],
            dry_run=False,
        )
        latest: dict[UUID, datetime] = {}
        for taker, until in over.values_list("taker_id", "until"):
            latest[taker] = max(until, latest.get(taker, until))
        past = {taker: until for taker, until in latest.items() if until <= self._view.now}
        if not past:
            return
        rows = Reservation.objects.filter(executor=self._executor, session__in=past)
        since = rows.values_list("session_id", "since")
        expired = {str(taker) for taker, begun in since if begun <= past[taker]}
        if expired:
            before = dict(self._reserved)
            self._reserved = {k: nodes for k, nodes in before.items() if k not in expired}
            reservations_write(self._executor, before, self._reserved)


class _Openings:
    """The openings of nodes before the first plan; those of a line are read once."""

    def __init__(self, room: Callable[[str], Room], reserved: Collection[str]):
        self._room = room
        self._reserved = reserved
        self._all = room("")
        self._known: dict[tuple[int, Avoid], dict[str, Opening]] = {}

    def of(self, head: Head) -> Mapping[str, Opening]:
        """Return what nodes have for a session; those that are kept for itself count, too."""
        ask, session = head.taker.ask, str(head.id)
        if session in self._reserved:
            return self._room(session).openings(ask, head.avoid)
        key = head.key, head.avoid
        if key not in self._known:
            self._known[key] = self._all.openings(ask, head.avoid)
        return self._known[key]


def _still_waits(session: LockedSession | None) -> bool:
    return (
        session is not None
        and phase_of(session.status) is Phase.WAITING
        and session.cancel_requested_at is None
    )


def _may_stop(session: LockedSession | None, token: int) -> bool:
    """Return whether the session still runs under this token, and nobody asked it to stop."""
    return (
        session is not None
        and session.fencing_token == token
        and phase_of(session.status) is Phase.LIVE
        and session.terminating_at is None
        and session.preempt_requested_at is None
        and session.cancel_requested_at is None
    )


def _audit(session: LockedSession, rule: Rule, reason: str) -> AuditRow:
    data = {"reason": reason, "rule": rule}
    about = str(session.id)
    return AuditRow(
        BY, "session.preempt", "session", about, data, session.project_id, session.root_id
    )
