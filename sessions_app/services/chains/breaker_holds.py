"""Retries that wait for a breaker: held when they are due, let go when it closes or they probe.

The sweep of breakers says which are open. It reads no chain under a lock, and nothing here writes
a breaker: a hold that was read too early ends at the next release.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from retry.breakers import OpenBreaker, holder
from retry.engine.decide import Mode
from retry.engine.decision import BREAKER
from retry.evidence.causes import PLATFORM_CAUSES
from sessions_app import wakeups
from sessions_app.core.states import RetryState
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes
from sessions_app.locks import (
    LockedSession,
    StoredDecision,
    claim_breaker_held,
    database_now,
    lock_sessions,
    read_decisions,
)
from sessions_app.services.chains.decisions import Hold, decisions_hold, decisions_resume
from sessions_app.services.chains.switch_holds import switch_hold
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 200

Holds = list[tuple[LockedSession, OpenBreaker]]


def breakers_holding(
    sessions: Sequence[LockedSession],
    decisions: Mapping[UUID, StoredDecision],
    scopes: Mapping[int, RetryScope],
) -> Holds:
    """Return the failed sessions whose automatic retries open breakers hold, with these.

    Retries that a person asked for are never held, and failures by the platform have no breaker.
    """
    held = []
    for each in sessions:
        breakers = scopes[each.project_id].breakers
        if all(breaker.signature != each.failure_signature for breaker in breakers):
            continue
        decision = decisions[each.id]
        if decision.requested_by or decision.cause in PLATFORM_CAUSES:
            continue
        breaker = holder(breakers, each.queue_id, each.failure_signature, str(each.id))
        if breaker is not None:
            held.append((each, breaker))
    return held


def breakers_hold(writes: Writes, held: Holds, now: datetime) -> None:
    """Hold retries until their breakers close."""
    if not held:
        return
    holds = [
        Hold(each.id, BREAKER, by.key, facts={"key": by.key, "signature": by.signature})
        for each, by in held
    ]
    decisions_hold(holds, now=now)
    sessions_change(writes, [_held(each, by) for each, by in held], now=now)


def _held(session: LockedSession, breaker: OpenBreaker) -> Change:
    facts = {
        "reason": f"the breaker of {breaker.signature} is open",
        "held_for": BREAKER,
        "held_key": breaker.key,
        "decision": {"state": "held"},
    }
    event = Event("session.retry_postponed", facts)
    return Change(session, {"retry_state": RetryState.HELD.value}, [event])


def breaker_held_resume(limit: int = BATCH) -> int:
    """Let go at most `limit` retries whose breaker has closed, or that are its probe.

    What a switch or another breaker holds as well, waits for that from now on. Return the number
    of retries looked at.
    """
    with atomic_step("resume") as writes:
        claimed = claim_breaker_held(limit)
        if not claimed:
            return 0
        now = database_now()
        sessions = lock_sessions(claimed)
        decisions = read_decisions([session.id for session in sessions])
        # Somebody may have come before our lock.
        waiting = [s for s in sessions if _waits(decisions[s.id])]
        scopes = retry_scopes({session.project_id for session in waiting}) if waiting else {}
        switched = [s for s in waiting if scopes[s.project_id].settings.mode is not Mode.ON]
        passed = {session.id for session in switched}
        rest = [session for session in waiting if session.id not in passed]
        again = breakers_holding(rest, decisions, scopes)
        passed |= {session.id for session, _ in again}
        switch_hold(writes, switched, now=now)
        breakers_hold(writes, [each for each in again if _moves(each, decisions)], now)
        _let_go(writes, [s for s in rest if s.id not in passed], decisions, now)
    return len(claimed)


def _waits(decision: StoredDecision) -> bool:
    return decision.state == "held" and decision.held_for == BREAKER


def _moves(
    held: tuple[LockedSession, OpenBreaker], decisions: Mapping[UUID, StoredDecision]
) -> bool:
    session, breaker = held
    return decisions[session.id].held_key != breaker.key


def _let_go(
    writes: Writes,
    sessions: Sequence[LockedSession],
    decisions: Mapping[UUID, StoredDecision],
    now: datetime,
) -> None:
    if not sessions:
        return
    decisions_resume([session.id for session in sessions], now=now)
    facts = {"reason": "no breaker holds it any more", "decision": {"state": "scheduled"}}
    event = Event("session.retry_scheduled", facts)
    values = {"retry_state": RetryState.SCHEDULED.value}
    sessions_change(writes, [Change(session, values, [event]) for session in sessions], now=now)
    wakeups.retries_due_after_commit([decisions[each.id].due_at for each in sessions], now=now)
