"""Parked chains end when somebody gives them up, or when their time is over.

A retry by hand (`manual_retry.py`) is the other way out, and a cancel.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.engine.decision import PARKED
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.core.states import RetryState
from sessions_app.db.steps import atomic_step
from sessions_app.locks import (
    LockedSession,
    StoredDecision,
    claim_parked,
    database_now,
    lock_chains,
    lock_sessions,
    read_decisions,
)
from sessions_app.services.chains.decisions import decisions_give_up
from sessions_app.services.chains.dispatch import BATCH
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, sessions_change


def chain_give_up(session_id: UUID, root_id: UUID, *, by: str) -> None:
    """End a parked chain as exhausted, on behalf of `by`. Repeating it changes nothing.

    Raises `Conflict` if the session is not the newest attempt, or if its chain is not parked.
    """
    with atomic_step("cancel"):
        chain = lock_chains([root_id]).get(root_id)
        if chain is None:
            raise NotFound("there is no such chain")
        tip = chain.tip
        if tip.id == session_id and tip.retry_state == RetryState.EXHAUSTED:
            return
        if tip.id != session_id or tip.retry_state != RetryState.PARKED:
            raise Conflict("the session is not the newest attempt of a parked chain")
        now = database_now()
        _end([tip], {"by": by}, now)
        data = {"reason": "given up"}
        row = AuditRow(by, "retry.give_up", "session", str(tip.id), data, tip.project_id, root_id)
        audit_append([row], now=now)


def parked_expire(limit: int = BATCH) -> int:
    """End at most `limit` parked chains whose time is over. Return their number."""
    with atomic_step("resume"):
        claimed = claim_parked(limit)
        if not claimed:
            return 0
        sessions = lock_sessions(claimed)
        now = database_now()
        decisions = read_decisions([session.id for session in sessions])
        over = [session for session in sessions if _is_over(decisions[session.id], now)]
        _end(over, {"by": "", "waited": True}, now)
    return len(over)


def _is_over(decision: StoredDecision, now: datetime) -> bool:
    """Return whether it is still parked: somebody may have come before our lock."""
    until = decision.due_at
    return decision.held_for == PARKED and until is not None and until <= now


def _end(tips: Sequence[LockedSession], facts: dict[str, Any], now: datetime) -> None:
    if not tips:
        return
    decisions_give_up([tip.id for tip in tips])
    decision = {"state": "final", "due_at": None}
    event = Event("session.retry_exhausted", {**facts, "decision": decision})
    values = {"retry_state": RetryState.EXHAUSTED.value}
    sessions_change([Change(tip, values, [event]) for tip in tips], now=now)
