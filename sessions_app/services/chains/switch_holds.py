"""Retries that wait for a switch: which ones it holds, and when they are let go."""

from collections.abc import Sequence
from datetime import datetime

from retry.engine.decide import Mode
from retry.engine.decision import SWITCH
from sessions_app import wakeups
from sessions_app.core.states import RetryState
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes
from sessions_app.locks import (
    LockedSession,
    StoredDecision,
    claim_resumable,
    database_now,
    lock_sessions,
    read_decisions,
)
from sessions_app.services.chains.decisions import Hold, decisions_hold, decisions_resume
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 200


def switch_holds(scope: RetryScope, decision: StoredDecision) -> bool:
    """Return whether the switch holds a waiting retry. Where retries are paused, people may still
    retry by hand."""
    mode = scope.settings.mode
    return mode is Mode.OFF or (mode is Mode.PAUSED and not decision.requested_by)


def switch_hold(writes: Writes, sessions: Sequence[LockedSession], *, now: datetime) -> None:
    """Hold the retries of failed sessions until the switch lets them go."""
    if not sessions:
        return
    decisions_hold([Hold(session.id, SWITCH) for session in sessions], now=now)
    facts = {
        "reason": "retries are switched off or paused",
        "held_for": SWITCH,
        "decision": {"state": "held"},
    }
    event = Event("session.retry_postponed", facts)
    values = {"retry_state": RetryState.HELD.value}
    sessions_change(writes, [Change(session, values, [event]) for session in sessions], now=now)


def held_resume(limit: int = BATCH) -> int:
    """Put retries that a switch held, and holds no more, back into the index. Return their number.

    Overdue ones get their slots under the storm limits when they are dispatched.
    """
    with atomic_step("resume") as writes:
        return _resume(writes, limit)


def _resume(writes: Writes, limit: int) -> int:
    claimed = claim_resumable(limit)
    if not claimed:
        return 0
    now = database_now()
    sessions = lock_sessions(claimed)
    scopes = retry_scopes({session.project_id for session in sessions})
    decisions = read_decisions([session.id for session in sessions])
    ready = [
        s
        for s in sessions
        if decisions[s.id].switched and not switch_holds(scopes[s.project_id], decisions[s.id])
    ]
    decisions_resume([session.id for session in ready], now=now)
    facts = {"reason": "the switch holds it no more", "decision": {"state": "scheduled"}}
    event = Event("session.retry_scheduled", facts)
    sessions_change(
        writes,
        [Change(s, {"retry_state": RetryState.SCHEDULED.value}, [event]) for s in ready],
        now=now,
    )
    wakeups.retries_due_after_commit([decisions[s.id].due_at for s in ready], now=now)
    return len(ready)
