"""Leases that an executor returns."""

from collections.abc import Sequence
from uuid import UUID

from scheduler.services.executors import executor_check
from scheduler.services.leases import leases_delete
from scheduler.services.reports import APPLIED, BUSY, INVALID, NOT_ITS_LEASE, STALE, UNKNOWN
from scheduler.wire import Outcome, Return
from sessions_app.core.states import Status
from sessions_app.db.steps import atomic_step
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.models import Session
from sessions_app.services.sessions.unlease import sessions_unlease


def returns_apply(name: str, incarnation: int, returns: Sequence[Return]) -> list[Outcome]:
    """Take back leases for which nothing was started. Return one outcome each, in their order."""
    executor_check(name, incarnation)
    with atomic_step("return"):
        ids = {item.session_id for item in returns}
        sessions = lock_sessions(sorted(ids), skip_locked=True)
        locked = {s.id: s for s in sessions if s.executor == name}
        own = Session.objects.filter(pk__in=ids, executor=name)
        existing = set(own.values_list("pk", flat=True))
        outcomes = [_outcome_of(item, locked.get(item.session_id), existing) for item in returns]
        now = database_now()
        done: dict[tuple[str, bool], list[LockedSession]] = {}
        for item, outcome in zip(returns, outcomes, strict=True):
            session = locked.pop(item.session_id, None)
            if outcome.outcome == APPLIED and session is not None:
                why = item.reason or "no reason given", not item.own_trouble
                done.setdefault(why, []).append(session)
        for (reason, counted), sessions in done.items():
            sessions_unlease(
                sessions,
                event="session.lease_returned",
                reason=f"{name}: {reason}",
                counted=counted,
                avoid=name,
                now=now,
            )
        leases_delete([session.id for sessions in done.values() for session in sessions])
    return outcomes


def _outcome_of(item: Return, session: LockedSession | None, existing: set[UUID]) -> Outcome:
    outcome, detail = APPLIED, ""
    if session is None:
        known = item.session_id in existing
        outcome = BUSY if known else INVALID
        detail = "its row is locked just now" if known else UNKNOWN
    elif item.fencing_token != session.fencing_token:
        outcome, detail = STALE, NOT_ITS_LEASE
    elif session.accepted_at is not None and not _started_nothing(item, session):
        outcome, detail = INVALID, "the session was accepted: report its end instead"
    return Outcome(
        session_id=str(item.session_id),
        fencing_token=item.fencing_token,
        outcome=outcome,
        detail=detail,
    )


def _started_nothing(item: Return, session: LockedSession) -> bool:
    """Return whether an accepted lease may go back: its executor found no place for it."""
    waits = session.status is Status.PREPARING and session.cancel_requested_at is None
    return item.own_trouble and waits
