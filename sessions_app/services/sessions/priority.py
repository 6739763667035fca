"""Priority: orders the sessions that wait anew, each within its class."""

from collections.abc import Sequence
from uuid import UUID

from sessions_app.core.errors import Conflict, DomainError, NotFound
from sessions_app.core.priorities import folded, unfolded
from sessions_app.core.states import Status
from sessions_app.db.steps import atomic_step
from sessions_app.locks import LockedSession, lock_sessions_now
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, sessions_change


def session_set_priority(session_id: UUID, priority: int, *, by: str) -> None:
    """Give one session another priority as `sessions_set_priority` does. Raises its refusal."""
    refusal = sessions_set_priority([session_id], priority, by=by)[session_id]
    if refusal is not None:
        raise refusal


def sessions_set_priority(
    session_ids: Sequence[UUID], priority: int, *, by: str, dry_run: bool = False
) -> dict[UUID, DomainError | None]:
    """Give sessions that wait another priority on behalf of `by`, in one transaction and a fixed
    number of statements.

    Their classes stay, and later attempts keep the priority. Lease rounds read it from the rows, so
    the next round follows it. Repeating it changes nothing. Return the refusals: `Conflict` for a
    session that does not wait, `NotFound` for an unknown one. The others are changed all the same.
    A `dry_run` returns the same and changes nothing.
    """
    with atomic_step("priority") as writes:
        sessions, now = lock_sessions_now(session_ids)
        locked = {session.id: session for session in sessions}
        refusals = {each: _refusal(locked.get(each)) for each in session_ids}
        if dry_run:
            return refusals
        chosen = [
            session
            for session in sessions
            if refusals[session.id] is None and unfolded(session.priority).within != priority
        ]
        changes = [_change(session, priority, by) for session in chosen]
        sessions_change(writes, changes, now=now)
        audit_append(writes, [_audit(session, priority, by) for session in chosen], now=now)
    return refusals


def _refusal(session: LockedSession | None) -> DomainError | None:
    if session is None:
        return NotFound("there is no such session")
    if session.status is Status.PENDING:
        return None
    why = "the priority can only be changed while the session waits"
    return Conflict(f"{why}; it is {session.status.value}")


def _change(session: LockedSession, priority: int, by: str) -> Change:
    before = unfolded(session.priority)
    data = {"priority": priority, "before": before.within, "by": by}
    event = Event("session.priority_changed", data)
    return Change(session, {"priority": folded(before.rank, priority)}, [event])


def _audit(session: LockedSession, priority: int, by: str) -> AuditRow:
    data = {
        "before": {"priority": unfolded(session.priority).within},
        "after": {"priority": priority},
    }
    about = str(session.id)
    return AuditRow(
        by, "session.priority", "session", about, data, session.project_id, session.root_id
    )
