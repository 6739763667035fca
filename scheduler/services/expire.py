"""Expiry: leases that were not accepted in time, and runs whose executor is silent."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from scheduler.allocation.reservations import reservations_restore
from scheduler.services.executors import lease_silence, lost_end
from scheduler.services.leases import leases_delete
from scheduler.services.progress import progress_of
from sessions_app.core.states import FINAL_STATUSES, Status
from sessions_app.db.steps import atomic_step
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.sessions.unlease import Handback, sessions_unlease
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 500


class Overdue(NamedTuple):
    """A lease past one of its deadlines."""

    session_id: UUID
    fencing_token: int
    deadline_passed: bool


class ExpireResult(NamedTuple):
    """The numbers of sessions that one sweep changed."""

    returned: int
    lost: int
    settled: int


def leases_expire() -> ExpireResult:
    """Process one batch of each kind of expiry; call again while a count is above 0."""
    if not _anything_overdue():
        return ExpireResult(0, 0, 0)
    return ExpireResult(_expire_unaccepted(), _mark_lost(), _settle_unconfirmed())


# No index has the leases that nobody accepted: acceptance would have to write to it.
_UNACCEPTED = """
    SELECT session_id, fencing_token, false FROM scheduler_lease
    WHERE NOT accepted
        AND granted_at < statement_timestamp() - make_interval(secs => %s)
    ORDER BY granted_at LIMIT %s
"""
# Along the silent executors, which are few. The limit inside keeps PostgreSQL from turning this
# into a join that reads all leases: it cannot know how few executors are silent.
_SILENT = f"""
    SELECT l.session_id, l.fencing_token, false FROM scheduler_executor e
    CROSS JOIN LATERAL (
        SELECT * FROM scheduler_lease
        WHERE executor_id = e.id AND accepted AND lost_at IS NULL LIMIT {BATCH:d}
    ) l
    WHERE e.last_seen_at < clock_timestamp() - make_interval(secs => %s)
    ORDER BY l.session_id LIMIT %s
"""
# A pod's own deadline counts from its start: until then nothing ends a pod that waits for a node.
_DEADLINE_PASSED = """
    coalesce(l.run_deadline + (s.started_at - s.accepted_at) < clock_timestamp(), false)
"""
_UNCONFIRMED = f"""
    SELECT l.session_id, l.fencing_token, {_DEADLINE_PASSED}
    FROM scheduler_lease l JOIN scheduler_executor e ON e.id = l.executor_id
    JOIN sessions_app_session s ON s.id = l.session_id
    WHERE l.lost_at IS NOT NULL AND (
        {_DEADLINE_PASSED}
        OR coalesce(e.unconfirmed_after, %s) > 0 AND l.lost_at
            < clock_timestamp() - make_interval(secs => coalesce(e.unconfirmed_after, %s)))
    ORDER BY l.session_id LIMIT %s
"""


_ANYTHING = f"SELECT EXISTS ({_UNACCEPTED}) OR EXISTS ({_SILENT}) OR EXISTS ({_UNCONFIRMED})"


def _anything_overdue() -> bool:
    """Return whether any lease is overdue, by one cheap statement: most sweeps find nothing."""
    with connection.cursor() as cursor:
        cursor.execute(_ANYTHING, [*_timeout(), 1, lease_silence(), 1, *_unconfirmed_seconds(), 1])
        row: tuple[bool] = cursor.fetchone()
    return row[0]


def _timeout() -> list[float]:
    return [settings.REPRISE["acceptance_timeout"]]


def _unconfirmed_seconds() -> list[float]:
    return [settings.REPRISE["unconfirmed_after"]] * 2


def _overdue(query: str, parameters: Sequence[float]) -> dict[UUID, Overdue]:
    with connection.cursor() as cursor:
        cursor.execute(query, [*parameters, BATCH])
        return {row[0]: Overdue._make(row) for row in cursor.fetchall()}


def _locked(overdue: dict[UUID, Overdue]) -> list[LockedSession]:
    """Lock and return the sessions that still hold the overdue lease; skip locked ones."""
    return [
        session
        for session in lock_sessions(list(overdue), skip_locked=True)
        if session.fencing_token == overdue[session.id].fencing_token
        and session.status not in FINAL_STATUSES
    ]


def _expire_unaccepted() -> int:
    (timeout,) = _timeout()
    with atomic_step("expire") as writes:
        overdue = _overdue(_UNACCEPTED, [timeout])
        sessions = [s for s in _locked(overdue) if s.accepted_at is None] if overdue else []
        reason = f"not accepted within {timeout:g} s"
        handback = Handback("session.lease_expired", reason, counted=True)
        sessions_unlease(writes, sessions, handback, now=database_now())
        returned = [session.id for session in sessions]
        leases_delete(returned)
        reservations_restore(returned)
    return len(sessions)


def _mark_lost() -> int:
    silence = lease_silence()
    with atomic_step("expire") as writes:
        overdue = _overdue(_SILENT, [silence])
        sessions = _locked(overdue) if overdue else []
        now = database_now()
        changes = [_lost(session, silence, now) for session in sessions]
        sessions_change(writes, changes, now=now)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduler_lease SET lost_at = %s WHERE session_id = ANY(%s::uuid[])",
                [now, [session.id for session in sessions]],
            )
    return len(sessions)


def _lost(session: LockedSession, silence: float, now: datetime) -> Change:
    text = f"executor {session.executor} has been silent for {silence:g} s"
    expired = Event("session.lease_expired", {"reason": text})
    if session.status is Status.TERMINATING:
        return Change(session, {}, [expired])
    values = {"status": Status.TERMINATING, "terminating_at": now, "status_message": text}
    return Change(session, values, [Event("session.terminating", {"reason": "lost"}), expired])


def _settle_unconfirmed() -> int:
    with atomic_step("expire") as writes:
        overdue = _overdue(_UNCONFIRMED, _unconfirmed_seconds())
        sessions = _locked(overdue) if overdue else []
        told = progress_of(session.id for session in sessions) if sessions else {}
        ends = [(s, _unconfirmed(s, overdue[s.id].deadline_passed)) for s in sessions]
        known = [(s, replace(end, progress=told.get(s.id))) for s, end in ends]
        settle_locked(writes, known, now=database_now())
        leases_delete([session.id for session in sessions])
    return len(sessions)


def _unconfirmed(session: LockedSession, deadline_passed: bool) -> End:
    if deadline_passed:
        return lost_end(session, "its executor is lost and its own deadline has passed")
    end = lost_end(session, "its executor is lost; nobody confirmed its end", unfenced=True)
    return replace(end, confirmed=False)
