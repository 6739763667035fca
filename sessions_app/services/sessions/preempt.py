"""Preempt: operators stop runs on their executors; the end is decided like any other."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sessions_app import wakeups
from sessions_app.core.errors import Conflict, DomainError, NotFound
from sessions_app.core.states import Phase, Status, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.services.sessions.unlease import Handback, sessions_unlease
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, sessions_change


class Preempted(NamedTuple):
    """The numbers of runs asked to stop, and of leases that were not accepted yet."""

    stopping: int
    returned: int


class _EndedSince(Conflict):
    """The session was asked to stop, and has ended since then."""


def session_preempt(session_id: UUID, *, by: str, reason: str = "") -> None:
    """Preempt one session as `sessions_preempt` does. Raises its refusal.

    A caller whose answer was lost may ask again, also after the end of the session.
    """
    refusal = sessions_preempt([session_id], by=by, reason=reason)[session_id]
    if refusal is not None and not isinstance(refusal, _EndedSince):
        raise refusal


def sessions_preempt(
    session_ids: Sequence[UUID], *, by: str, reason: str = "", dry_run: bool = False
) -> dict[UUID, DomainError | None]:
    """Preempt sessions on behalf of `by`, in one transaction and a fixed number of statements.

    The executor stops a run within its grace period, and the run ends as `preempted`. A session
    that no executor accepted goes back to its queue, uncounted. Repeating it changes nothing.
    Return the refusals: `Conflict` for a session that waits, is being stopped for another reason or
    has ended, `NotFound` for an unknown one. The others are preempted all the same. A `dry_run`
    returns the same and preempts nothing.
    """
    with atomic_step("preempt") as writes:
        locked = {session.id: session for session in lock_sessions(session_ids)}
        refusals = {each: _refusal(locked.get(each)) for each in session_ids}
        if dry_run:
            return refusals
        chosen = [
            session
            for session in locked.values()
            if refusals[session.id] is None and session.preempt_requested_at is None
        ]
        now = database_now()
        preempt_locked(writes, chosen, by=by, reason=reason, now=now)
        audit_append(writes, [_audit(session, by, reason) for session in chosen], now=now)
    return refusals


class WayGiven(NamedTuple):
    """The session for which Reprise itself makes room, and the reason in words.

    Whoever made room for it comes back whatever its policies say.
    """

    to: UUID
    reason: str


def preempt_locked(
    writes: Writes,
    sessions: Sequence[LockedSession],
    *,
    by: str,
    reason: str = "",
    now: datetime,
    ways: Mapping[UUID, WayGiven] | None = None,
) -> Preempted:
    """Preempt live sessions that nobody has told to stop; the caller holds their locks.

    `ways` are those that make room for others, by id; `reason` is that of all others.
    """
    given = ways or {}
    messages = {
        each.id: _message(by, given[each.id].reason if each.id in given else reason)
        for each in sessions
    }
    running = [session for session in sessions if session.accepted_at is not None]
    unaccepted = [session for session in sessions if session.accepted_at is None]
    sessions_change(
        writes,
        [_stopping(each, by, messages[each.id], now, given.get(each.id)) for each in running],
        now=now,
    )
    if running:
        wakeups.work_after_commit()
    if unaccepted:
        handback = Handback("session.lease_returned", messages, counted=False)
        sessions_unlease(writes, unaccepted, handback, now=now)
    return Preempted(len(running), len(unaccepted))


def _message(by: str, reason: str) -> str:
    return f"preempted by {by}{reason and ': '}{reason}"


def _refusal(session: LockedSession | None) -> DomainError | None:
    if session is None:
        return NotFound("there is no such session")
    if phase_of(session.status) is Phase.FINAL:
        why = f"the session has ended: it is {session.status.value}"
        return Conflict(why) if session.preempt_requested_at is None else _EndedSince(why)
    if session.preempt_requested_at is not None:
        return None
    why = ""
    if session.cancel_requested_at is not None:
        why = "its chain was cancelled"
    elif session.status is Status.PENDING:
        why = "the session waits in its queue: there is no run to preempt"
    elif session.status is Status.TERMINATING:
        why = "the session is being stopped already"
    return Conflict(why) if why else None


def _stopping(
    session: LockedSession, by: str, message: str, now: datetime, way: WayGiven | None
) -> Change:
    values = {
        "status": Status.TERMINATING,
        "status_message": message,
        "terminating_at": now,
        "preempt_requested_at": now,
    }
    if way is not None:
        values["gave_way_to"] = way.to
    return Change(session, values, [Event("session.terminating", {"reason": message, "by": by})])


def _audit(session: LockedSession, by: str, reason: str) -> AuditRow:
    data, about = {"reason": reason}, str(session.id)
    return AuditRow(
        by, "session.preempt", "session", about, data, session.project_id, session.root_id
    )
