"""Leases: granting them to an executor, taking them back, and telling it what to stop."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from retry.evidence import Termination
from retry.resources import Amounts
from scheduler.fit import Room
from scheduler.locks import HeldLease, lock_executor, next_fencing_tokens
from scheduler.models import Executor
from scheduler.services.handover import Wish, leased_sessions, resources_held, wishes_of
from scheduler.services.reach import Reach
from scheduler.wire import LeasedSession, Run, Stop
from sessions_app import wakeups
from sessions_app.bulk import array
from sessions_app.failpoints import atomic_step
from sessions_app.locks import LockedSession, claim_waiting, database_now
from sessions_app.quotas import Held, Quotas
from sessions_app.services.settle import End, settle_locked
from sessions_app.services.transitions import Change, Event, sessions_change
from sessions_app.services.usage import quotas_lock, quotas_read
from sessions_app.states import Status

MAX_GRANTS = 500
MAX_MISFITS = 2000
"""So many sessions that do not fit are stepped over in one round."""
SHORTEST_REST = timedelta(seconds=2)
LONGEST_REST = timedelta(seconds=60)
Misfit = tuple[LockedSession, Wish]


class LeaseRound(NamedTuple):
    """What one round granted, and how many sessions did not fit just now."""

    leases: list[LeasedSession]
    passed_over: int


@dataclass
class _Found:
    """The waiting sessions that a round has looked at.

    `held` is what the executor's leases take; `avoided` are the nodes that the fitting sessions
    are kept from. `over` are those that a quota holds back, whose projects are `closed` for the
    rest of the round: what waits behind them in their project does not hide that of others.
    """

    executor: Executor
    held: Amounts
    reach: Reach
    quotas: Quotas
    fitting: list[LockedSession] = field(default_factory=list)
    wishes: dict[UUID, Wish] = field(default_factory=dict)
    avoided: dict[UUID, str] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)
    over: list[tuple[LockedSession, Held]] = field(default_factory=list)

    @property
    def ids(self) -> list[UUID]:
        stepped_over = (s for s, _ in (*self.misfits, *self.over))
        return [session.id for session in (*self.fitting, *stepped_over)]

    @property
    def closed(self) -> set[int]:
        """The projects that can start nothing more in this round."""
        return {*self.quotas.full(), *(session.project_id for session, _ in self.over)}

    @cached_property
    def room(self) -> Room:
        return Room(self.executor.nodes, [self.held])

    def divide(self, candidates: Sequence[LockedSession], slots: int) -> None:
        """Book room for the candidates that fit, up to `slots` of them in all."""
        self.wishes |= wishes_of([session.id for session in candidates])
        for session in candidates:
            if len(self.fitting) == slots:
                return
            wish = self.wishes[session.id]
            over = self.quotas.held(session.project_id, wish.counted)
            if over is not None:
                self.over.append((session, over))
                continue
            node = self._node_to_avoid(session, wish) if wish.node else ""
            if self.room.misfit(wish.amounts, node) is not None:
                self.misfits.append((session, wish))
                continue
            self.room.take(wish.amounts)
            self.quotas.take(session.project_id, wish.counted)
            self.fitting.append(session)
            if node:
                self.avoided[session.id] = node

    def admit(self) -> None:
        """Keep of the fitting sessions those for which there still is a quota.

        The quotas were read without a lock, which all that happens in a project would have had to
        wait for: meanwhile another executor may have used them up.
        """
        if not self.quotas or not self.fitting:
            return
        quotas = quotas_lock({session.project_id for session in self.fitting})
        wanted, self.fitting = self.fitting, []
        for session in wanted:
            counted = self.wishes[session.id].counted
            over = quotas.held(session.project_id, counted)
            if over is not None:
                self.over.append((session, over))
                continue
            quotas.take(session.project_id, counted)
            self.fitting.append(session)

    def _node_to_avoid(self, session: LockedSession, wish: Wish) -> str:
        """The node here that the session avoids; "" if it could run nowhere else."""
        node = wish.node_avoided_on(self.executor.name)
        misfit = self.room.misfit(wish.amounts, node)
        if misfit is None or misfit.ever or self.reach.could_ever_run(session, wish):
            return node
        return ""


def lease_round(name: str, incarnation: int) -> LeaseRound:
    """Grant waiting sessions to an executor as far as it has room, most important first."""
    with atomic_step("lease"):
        executor = lock_executor(name)
        if executor is None or executor.incarnation != incarnation or executor.cordoned:
            return LeaseRound([], 0)
        held = resources_held(executor.pk)
        free_slots = min(executor.max_sessions - held.sessions, MAX_GRANTS)
        if free_slots <= 0:
            return LeaseRound([], 0)
        now = database_now()
        found = _look(executor, held.amounts, free_slots, now)
        _back_off(found, now)
        found.admit()
        tokens = _grant(found, now) if found.fitting else {}
        return LeaseRound(leased_sessions(tokens, found.avoided), len(found.misfits))


def _look(executor: Executor, held: Amounts, slots: int, now: datetime) -> _Found:
    """Waiting sessions until `slots` of them fit beside what the executor holds.

    What does not fit is stepped over, in steps that grow, so that it never hides what does.
    """
    projects = list(executor.projects.values_list("pk", flat=True)) or None
    quotas = quotas_read(projects, waiting=False, live=True)
    found = _Found(executor, held, Reach(executor, now), quotas)
    while len(found.fitting) < slots and len(found.misfits) + len(found.over) < MAX_MISFITS:
        candidates = claim_waiting(
            now=now,
            projects=projects,
            closed=found.closed,
            executor=executor.name,
            others=found.reach.serving,
            passed=found.ids,
            limit=max(slots - len(found.fitting), len(found.misfits) + len(found.over)),
        )
        if not candidates:
            break
        found.divide(candidates, slots)
    return found


def _back_off(found: _Found, now: datetime) -> None:
    """Let sessions that no executor could run even if it were empty rest for a while, and those
    that ask for more than their whole quota.

    What could run elsewhere or later stays: another executor may look in the next moment. One
    that only an executor which it avoids could run avoids none from then on.
    """
    too_large = [session for session, over in found.over if not over.ever]
    sessions_change([Change(s, {"not_before": now + _rest(s, now)}) for s in too_large], now=now)
    if not found.misfits:
        return
    empty = Room(found.executor.nodes, ())
    nowhere = [
        session
        for session, wish in found.misfits
        # For a node that is avoided there is no rest: that gives way.
        if empty.misfit(wish.amounts) is not None
        and not found.reach.could_ever_run(session, wish._replace(node=""))
    ]
    sessions_change(
        [Change(s, {"not_before": now + _rest(s, now), "avoid_executors": []}) for s in nowhere],
        now=now,
    )


def _rest(session: LockedSession, now: datetime) -> timedelta:
    """The longer it has waited, the longer the pause: many that fit nowhere cost little."""
    return min(max((now - session.root_submitted_at) / 4, SHORTEST_REST), LONGEST_REST)


# The conflict is a lease of an earlier life of the session that nobody has swept yet.
_INSERT = """
    INSERT INTO scheduler_lease (session_id, executor_id, fencing_token, granted_at, accepted)
    SELECT v.session_id, %s, v.fencing_token, %s, false
    FROM unnest(%s::uuid[], %s::bigint[]) AS v(session_id, fencing_token)
    ON CONFLICT (session_id) DO UPDATE SET
        executor_id = excluded.executor_id, fencing_token = excluded.fencing_token,
        granted_at = excluded.granted_at, accepted = false, lost_at = NULL, run_deadline = NULL
"""


def _grant(found: _Found, now: datetime) -> dict[UUID, int]:
    """Write the leases; the fencing token of each session."""
    executor, sessions = found.executor, found.fitting
    tokens = dict(
        zip((session.id for session in sessions), next_fencing_tokens(len(sessions)), strict=True)
    )
    sessions_change(
        [
            Change(
                session,
                {
                    "status": Status.SCHEDULED,
                    "scheduled_at": now,
                    "executor": executor.name,
                    "fencing_token": tokens[session.id],
                    "report_seq": 0,
                    "not_before": None,
                },
                [Event("session.scheduled", {"fencing_token": tokens[session.id]})],
            )
            for session in sessions
        ],
        now=now,
        within_quotas=bool(found.quotas),
    )
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [executor.pk, now, array(tokens), array(tokens.values())])
    return tokens


def sessions_unlease(
    sessions: Sequence[LockedSession],
    *,
    event: str,
    reason: str,
    counted: bool,
    now: datetime,
    avoid: str = "",
) -> None:
    """Send locked sessions that no executor accepted back to their queue.

    A `counted` one that was sent back too often ends as `scheduler_timeout` instead; `avoid`
    names the executor that refused them. The caller deletes the leases.
    """
    limit = int(settings.REPRISE["max_lease_returns"])
    worn_out = [s for s in sessions if counted and s.lease_returns + 1 >= limit]
    changes = []
    for session in sessions:
        if session in worn_out:
            continue
        values = {
            "status": Status.PENDING,
            "scheduled_at": None,
            "executor": "",
            "fencing_token": None,
            "lease_returns": session.lease_returns + counted,
            "avoid_executors": sorted({*session.avoid_executors, *([avoid] if avoid else [])}),
        }
        changes.append(Change(session, values, [Event(event, {"reason": reason})]))
    sessions_change(changes, now=now)
    text = f"handed back {limit} times by executors, last: {reason}"
    end = End(Termination(conditions=("Unschedulable",)), message=text)
    settle_locked([(session, end) for session in worn_out], now=now)
    wakeups.work_after_commit()


def leases_delete(session_ids: Sequence[UUID]) -> None:
    """Forget the leases of these sessions; there is room again."""
    if session_ids:
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM scheduler_lease WHERE session_id = ANY(%s::uuid[])",
                [array(session_ids)],
            )
        wakeups.work_after_commit()


_GRACES = """
    SELECT s.id, p.termination_grace_period
    FROM sessions_app_session s JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[])
"""


def stops_for(held: Sequence[HeldLease], runs: Sequence[Run]) -> list[Stop]:
    """The runs of a call that must end: cancelled, lost, or not this executor's any more.

    `held` are the executor's leases.
    """
    if not runs:
        return []
    known = lease_keys(runs)
    over = [
        lease
        for lease in held
        if (lease.cancelled or lease.lost_at is not None)
        and (lease.fencing_token, lease.session_id.int) in known
    ]
    graces = _graces([lease.session_id for lease in over]) if over else {}
    wanted = [
        Stop(
            session_id=lease.session_id,
            fencing_token=lease.fencing_token,
            reason="cancelled" if lease.cancelled else "unknown",
            grace_period=graces[lease.session_id],
        )
        for lease in over
    ]
    unknown = [
        Stop(session_id=UUID(int=number), fencing_token=token, reason="unknown", grace_period=0)
        for token, number in sorted(known - lease_keys(held))
    ]
    return wanted + unknown


def lease_keys(leases: Iterable[Run | HeldLease]) -> set[tuple[int, int]]:
    """The token and the session of each lease; an id as its number, which is cheap to hash."""
    return {(lease.fencing_token, lease.session_id.int) for lease in leases}


def _graces(session_ids: Sequence[UUID]) -> dict[UUID, float]:
    with connection.cursor() as cursor:
        cursor.execute(_GRACES, [array(session_ids)])
        return dict(cursor.fetchall())
