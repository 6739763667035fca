"""Parked chains end when somebody gives them up, or when their time is over.

A retry by hand (`manual_retry.py`) is the other way out, and a cancel.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.engine.decision import PARKED
from sessions_app.core.errors import Conflict, DomainError, NotFound
from sessions_app.core.states import RetryState
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import (
    LockedChain,
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
    """Give up one parked chain as `chains_give_up` does. Raises its refusal.

    Repeating it changes nothing: a chain that is exhausted already is not refused.
    """
    refusal = chains_give_up({session_id: root_id}, by=by, again=True)[session_id]
    if refusal is not None:
        raise refusal


def chains_give_up(
    roots: Mapping[UUID, UUID], *, by: str, dry_run: bool = False, again: bool = False
) -> dict[UUID, DomainError | None]:
    """End parked chains as exhausted, on behalf of `by`, in a fixed number of statements.

    `roots` maps the newest attempts to their roots. Return for each session None or the refusal:
    `Conflict` if it is not the newest attempt or its chain is not parked, `NotFound` for an unknown
    chain. The others end all the same. A `dry_run` ends none. With `again` chains that are
    exhausted already are not refused: who named them may have given them up before.
    """
    with atomic_step("cancel") as writes:
        chains = lock_chains(list(set(roots.values())))
        refusals = {
            session_id: _refusal(session_id, chains.get(root_id), exhausted=again)
            for session_id, root_id in roots.items()
        }
        found = [chains[roots[each]].tip for each, why in refusals.items() if why is None]
        tips = [tip for tip in found if tip.retry_state == RetryState.PARKED]
        if tips and not dry_run:
            now = database_now()
            _end(writes, tips, {"by": by}, now)
            audit_append(writes, [_audit(tip, by) for tip in tips], now=now)
    return refusals


def _refusal(session_id: UUID, chain: LockedChain | None, *, exhausted: bool) -> DomainError | None:
    if chain is None:
        return NotFound("there is no such chain")
    tip = chain.tip
    fine = {RetryState.PARKED, RetryState.EXHAUSTED} if exhausted else {RetryState.PARKED}
    if tip.id == session_id and tip.retry_state in fine:
        return None
    return Conflict("the session is not the newest attempt of a parked chain")


def _audit(tip: LockedSession, by: str) -> AuditRow:
    data = {"reason": "given up"}
    return AuditRow(by, "retry.give_up", "session", str(tip.id), data, tip.project_id, tip.root_id)


def parked_expire(limit: int = BATCH) -> int:
    """End at most `limit` parked chains whose time is over. Return their number."""
    with atomic_step("resume") as writes:
        claimed = claim_parked(limit)
        if not claimed:
            return 0
        sessions = lock_sessions(claimed)
        now = database_now()
        decisions = read_decisions([session.id for session in sessions])
        over = [session for session in sessions if _is_over(decisions[session.id], now)]
        _end(writes, over, {"by": "", "waited": True}, now)
    return len(over)


def _is_over(decision: StoredDecision, now: datetime) -> bool:
    """Return whether it is still parked: somebody may have come before our lock."""
    until = decision.due_at
    return decision.held_for == PARKED and until is not None and until <= now


def _end(
    writes: Writes, tips: Sequence[LockedSession], facts: dict[str, Any], now: datetime
) -> None:
    if not tips:
        return
    why = decisions_give_up([tip.id for tip in tips])
    ends = {**facts, "decision": {"state": "final", "due_at": None}}
    values = {"retry_state": RetryState.EXHAUSTED.value}
    changes = [
        Change(tip, values, [Event("session.retry_exhausted", {**why[tip.id], **ends})])
        for tip in tips
    ]
    sessions_change(writes, changes, now=now)
