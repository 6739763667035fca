"""Preemption by Reprise itself: running sessions make room for one that waits.

One sweep plans for all executors, under an advisory lock. A plan is carried out whole or not at
all, and the room is kept free for its taker. The victims come back by `retry/engine/decide.py`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from scheduler.allocation.holdings import Held, leases_held, room_beside
from scheduler.allocation.preemption_world import (
    Candidate,
    Head,
    below_since,
    candidates,
    heads_without_room,
)
from scheduler.allocation.project_troubles import troubled_projects
from scheduler.allocation.queue_usage import UsageLevels, usage_levels
from scheduler.allocation.reservations import reservations_write
from scheduler.allocation.waiting_lines import busy_queues
from scheduler.core.fit import Room
from scheduler.core.preemption import (
    Plan,
    Shares,
    plan_by_priority,
    plan_by_share,
    queues_below,
    shares,
)
from scheduler.locks import lock_executor_for_round, try_lock, waiting_lines_by_index
from scheduler.models import Executor, Preemption, Preempts
from scheduler.services.leases import leases_delete
from scheduler.services.silence import silent_before
from sessions_app.core.priorities import DEFAULT_CLASS
from sessions_app.core.states import Phase, Status, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.in_force.quotas import quotas_read
from sessions_app.instruments import PREEMPTIONS
from sessions_app.locks import AdvisoryLock, LockedSession, database_now, lock_sessions
from sessions_app.models import PriorityClass, Queue, Session
from sessions_app.services.sessions.preempt import preempt_locked
from sessions_app.services.write.audit import AuditRow, audit_append

BY = "scheduler"
PRIORITY, FAIR_SHARE = "priority", "fair_share"
KEPT_FOR = timedelta(seconds=120)
"""How long the room is kept free for its taker at most."""
REMEMBERED_FOR = timedelta(days=30)
_MINUTE = timedelta(minutes=1)


class MadeRoom(NamedTuple):
    """What one sweep did."""

    plans: int
    victims: int


class _View(NamedTuple):
    """What all executors of a sweep share."""

    now: datetime
    shares: Shares
    usage: UsageLevels
    reclaiming: frozenset[int]
    """Queues that have been below their share for long enough."""
    may_preempt: frozenset[int]
    """The values of the classes that may preempt."""
    names: Mapping[int, str]


def room_make() -> MadeRoom:
    """Plan preemptions on all executors that do so, and carry them out. Return their numbers."""
    chosen = _preempting()
    if not chosen:
        return MadeRoom(0, 0)
    plans = victims = 0
    view: _View | None = None
    for name in chosen:
        # One transaction for each executor: its row is locked no longer than for a lease round.
        with atomic_step("make_room"):
            if not try_lock(AdvisoryLock.PREEMPTION):
                break
            view = view or _view()
            executor = lock_executor_for_round(name)
            if executor is None or executor.cordoned or executor.trouble:
                continue
            sweep = _Sweep(executor, view)
            if sweep.mode == Preempts.OFF:  # since a moment ago
                continue
            done = sweep.run()
        for rule, count in done:
            PREEMPTIONS.labels(rule, sweep.mode).inc(count)
            plans, victims = plans + 1, victims + count
    Preemption.objects.filter(planned_at__lt=database_now() - REMEMBERED_FOR).delete()
    return MadeRoom(plans, victims)


def _preempting() -> list[str]:
    """Return the names of the executors whose sessions make room, or would in a dry run."""
    on = ~Q(preemption__in=["", Preempts.OFF])
    if settings.REPRISE_PREEMPTION != Preempts.OFF:
        on |= Q(preemption="")
    alive = Executor.objects.filter(on, last_seen_at__gte=silent_before(database_now()))
    return list(alive.order_by("pk").values_list("name", flat=True))


def _view() -> _View:
    now = database_now()
    usage = usage_levels({}, now)
    waiting = [queue.id for queue in busy_queues(None)]
    active = {*waiting, *usage.holds}
    factors = dict(Queue.objects.filter(pk__in=active).values_list("pk", "priority_factor"))
    found = shares(factors, usage.holds) if factors else Shares({}, {})
    below = queues_below(found, waiting, settings.REPRISE["reclaim_below"])
    before = now - timedelta(seconds=settings.REPRISE["reclaim_after"])
    since = below_since(below, now)
    classes = list(PriorityClass.objects.all())
    return _View(
        now,
        found,
        usage,
        frozenset(queue for queue, begun in since.items() if begun <= before),
        frozenset(each.value for each in classes if each.may_preempt),
        {0: DEFAULT_CLASS, **{each.value: each.name for each in classes}},
    )


class _Sweep:
    """The plans of one executor, whose row is locked."""

    def __init__(self, executor: Executor, view: _View):
        self._executor = executor
        self._view = view
        self._held: Sequence[Held] = leases_held(executor.pk)[executor.pk]
        self._reserved = dict(executor.reserved or {})
        self.mode: str = executor.preemption or settings.REPRISE_PREEMPTION
        self._dry = self.mode == Preempts.DRY_RUN

    def run(self) -> list[tuple[str, int]]:
        """Make the plans. Return the rule and the number of victims of each."""
        self._free_expired()
        done: list[tuple[str, int]] = []
        running: list[Candidate] | None = None
        for head, rule in self._takers():
            if running is None:
                running = candidates(self._executor, self._view.now, self._view.usage.pool)
            plan = self._plan(head, rule, running)
            if plan is None or not self._within_rate(len(plan.victims)):
                continue
            if self._dry or self._carry_out(head, rule, plan, running):
                self._record(head, rule, plan)
                done.append((rule, len(plan.victims)))
                gone = {each.id for each in plan.victims}
                running = [each for each in running if each.running.id not in gone]
        return done

    def _takers(self) -> list[tuple[Head, str]]:
        """Return who may have room made, each with its rule, highest class first."""
        projects = list(self._executor.projects.values_list("pk", flat=True)) or None
        queues = busy_queues(projects, without=troubled_projects(self._executor))
        if not queues:
            return []
        quotas = quotas_read(projects, waiting=False, live=True)
        pool = self._view.usage.pool
        with waiting_lines_by_index():
            heads = heads_without_room(self._executor, self._room(), queues, quotas, pool)
        ruled = [(head, rule) for head in heads if (rule := self._rule(head))]
        taken = self._taking([head.id for head, _ in ruled])
        return [each for each in ruled if each[0].id not in taken]

    def _rule(self, head: Head) -> str:
        waited = self._view.now.timestamp() - head.made_at
        preempts = head.taker.rank in self._view.may_preempt
        if preempts and waited >= settings.REPRISE["preempt_after"]:
            return PRIORITY
        return FAIR_SHARE if head.taker.queue in self._view.reclaiming else ""

    def _taking(self, heads: Sequence[UUID]) -> set[UUID]:
        """Return those for which room is being made already, here or elsewhere."""
        made = Preemption.objects.filter(taker_id__in=heads)
        rows = list(made.values_list("taker_id", "victim_id", "until"))
        # A long grace period is no reason to stop others, too.
        ids = [victim for _, victim, _ in rows]
        stopping = Session.objects.filter(pk__in=ids, status=Status.TERMINATING)
        still = set(stopping.values_list("pk", flat=True))
        now = self._view.now
        return {taker for taker, victim, until in rows if until > now or victim in still}

    def _room(self, without: str = "") -> Room:
        """Return the room here, without nodes that are kept free for others."""
        room = room_beside(self._executor, self._held)
        for session, nodes in self._reserved.items():
            if session != without:
                room.close(nodes)
        return room

    def _plan(self, head: Head, rule: str, running: Sequence[Candidate]) -> Plan | None:
        openings = self._room(str(head.id)).openings(head.taker.ask, head.avoid)
        make = plan_by_priority if rule == PRIORITY else plan_by_share
        plan = make(head.taker, [each.running for each in running], openings, self._view.shares)
        # If it fits by now, the next round leases it.
        return plan if plan is not None and plan.victims else None

    def _within_rate(self, victims: int) -> bool:
        """Return whether so many may make room now: one plan always may."""
        recent = Preemption.objects.filter(
            executor=self._executor, planned_at__gt=self._view.now - _MINUTE
        ).count()
        most = settings.REPRISE["preempt_rate"] * sum(each.leases for each in self._held)
        return recent == 0 or recent + victims <= most

    def _carry_out(self, head: Head, rule: str, plan: Plan, running: Sequence[Candidate]) -> bool:
        """Preempt the victims and keep their room. Return False if anything changed meanwhile."""
        tokens = {each.running.id: each.fencing_token for each in running}
        wanted = {each.id: tokens[each.id] for each in plan.victims}
        locked = {each.id: each for each in lock_sessions([*wanted, head.id], skip_locked=True)}
        taker = locked.pop(head.id, None)
        if taker is None or not _still_waits(taker):
            return False
        if any(not _may_stop(locked.get(each), token) for each, token in wanted.items()):
            return False
        self._preempt(list(locked.values()), head, rule)
        before = dict(self._reserved)
        self._reserved[str(head.id)] = plan.nodes
        reservations_write(self._executor, before, self._reserved)
        return True

    def _preempt(self, victims: Sequence[LockedSession], head: Head, rule: str) -> None:
        now = self._view.now
        for own in (True, False):
            chosen = [each for each in victims if (each.project_id == head.project_id) is own]
            reason = self._reason(head, rule, own=own)
            preempt_locked(chosen, by=BY, reason=reason, now=now, gave_way_to=head.id)
            audit_append([_audit(each, rule, reason) for each in chosen], now=now)
        leases_delete([each.id for each in victims if each.accepted_at is None])

    def _reason(self, head: Head, rule: str, *, own: bool) -> str:
        """Return the words for people: of another project they name only the class."""
        name = self._view.names.get(head.taker.rank, "")
        who = f"session {head.id}" if own else f"a session of class {name} in another project"
        return f"made room for {who}, by {'priority' if rule == PRIORITY else 'fair share'}"

    def _record(self, head: Head, rule: str, plan: Plan) -> None:
        queues = {each.queue for each in plan.victims}
        projects = dict(Queue.objects.filter(pk__in=queues).values_list("pk", "project_id"))
        now = self._view.now
        Preemption.objects.bulk_create(
            Preemption(
                executor=self._executor,
                planned_at=now,
                until=now + KEPT_FOR,
                rule=rule,
                dry_run=self._dry,
                nodes=plan.nodes,
                taker_id=head.id,
                taker_project_id=head.project_id,
                taker_rank=head.taker.rank,
                victim_id=each.id,
                victim_project_id=projects[each.queue],
                victim_rank=each.rank,
            )
            for each in plan.victims
        )

    def _free_expired(self) -> None:
        """Give up room that was kept for a taker for too long."""
        over = Preemption.objects.filter(
            executor=self._executor,
            taker_id__in=[UUID(each) for each in self._reserved],
            dry_run=False,
        )
        latest: dict[str, datetime] = {}
        for taker, until in over.values_list("taker_id", "until"):
            latest[str(taker)] = max(until, latest.get(str(taker), until))
        expired = {each for each, until in latest.items() if until <= self._view.now}
        if expired:
            before = dict(self._reserved)
            self._reserved = {k: nodes for k, nodes in before.items() if k not in expired}
            reservations_write(self._executor, before, self._reserved)


def _still_waits(session: LockedSession) -> bool:
    return phase_of(session.status) is Phase.WAITING and session.cancel_requested_at is None


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


def _audit(session: LockedSession, rule: str, reason: str) -> AuditRow:
    data = {"reason": reason, "rule": rule}
    about = str(session.id)
    return AuditRow(
        BY, "session.preempt", "session", about, data, session.project_id, session.root_id
    )
