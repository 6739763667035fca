"""Cancel: ends chains, with their live attempts and waiting retries."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from retry.evidence.termination import Termination
from sessions_app import wakeups
from sessions_app.core.errors import Conflict, DomainError, NotFound
from sessions_app.core.states import WAITING_RETRY, Phase, RetryState, Status, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedChain, LockedSession, database_now, lock_chains
from sessions_app.services.chains.decisions import decisions_cancel
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.chains.storm_slots import slots_release
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, sessions_change


def chain_cancel(root_id: UUID, *, by: str) -> None:
    """Cancel one chain as `chains_cancel` does. Raises its refusal."""
    refusal = chains_cancel([root_id], by=by)[root_id]
    if refusal is not None:
        raise refusal


def chains_cancel(
    root_ids: Sequence[UUID], *, by: str, dry_run: bool = False
) -> dict[UUID, DomainError | None]:
    """Cancel chains on behalf of user `by`, in one transaction and a fixed number of statements.

    A session that no executor accepted ends at once; an accepted one ends when its executor has
    stopped it; a waiting retry is cancelled. Repeating it changes nothing. Return the refusals:
    `Conflict` for a chain that ended otherwise, `NotFound` for an unknown one. The others are
    cancelled all the same. A `dry_run` returns the same and cancels nothing.
    """
    with atomic_step("cancel") as writes:
        chains = lock_chains(root_ids)
        now = database_now()
        refusals = {root_id: _refusal(chains.get(root_id)) for root_id in root_ids}
        if dry_run:
            return refusals
        begun = [
            chain
            for root_id, chain in chains.items()
            if refusals[root_id] is None and not _is_cancelled(chain)
        ]
        requested = [Change(chain.root, {"cancel_requested_at": now}) for chain in begun]
        sessions_change(writes, requested, now=now)
        _stop(writes, [c.tip._replace(cancel_requested_at=now) for c in begun], by, now)
        audit_append(writes, [_audit(chain, by) for chain in begun], now=now)
    return refusals


def _is_cancelled(chain: LockedChain) -> bool:
    # Somebody may have asked for another attempt since then, which waits.
    over = chain.tip.status is Status.CANCELLED and chain.tip.retry_state not in WAITING_RETRY
    return chain.root.cancel_requested_at is not None or over


def _refusal(chain: LockedChain | None) -> DomainError | None:
    if chain is None:
        return NotFound("there is no such chain")
    tip = chain.tip
    if _is_cancelled(chain):
        return None
    if phase_of(tip.status) is Phase.FINAL and tip.retry_state not in WAITING_RETRY:
        return Conflict(
            f"the chain has ended: attempt {tip.retry_count + 1} is {tip.status.value} and "
            "no retry waits"
        )
    return None


def _audit(chain: LockedChain, by: str) -> AuditRow:
    data = {"tip": str(chain.tip.id)}
    root = chain.root
    return AuditRow(by, "session.cancel", "session", str(root.id), data, root.project_id, root.id)


def _stop(writes: Writes, tips: Sequence[LockedSession], by: str, now: datetime) -> None:
    message = f"cancelled by {by}"
    waiting = [tip for tip in tips if tip.retry_state in WAITING_RETRY]
    unaccepted = [
        tip for tip in tips if tip.retry_state not in WAITING_RETRY and tip.accepted_at is None
    ]
    running = [
        tip
        for tip in tips
        if tip.retry_state not in WAITING_RETRY
        and tip.accepted_at is not None
        and tip.status is not Status.TERMINATING
    ]
    slots = decisions_cancel([tip.id for tip in waiting]) if waiting else {}
    end = End(Termination(status="cancelled"), message=message, columns={"fencing_token": None})
    settle_locked(writes, [(tip, end) for tip in unaccepted], now=now)
    changes = [_no_retry(tip, by) for tip in waiting]
    changes += [_terminating(tip, message, now) for tip in running]
    sessions_change(writes, changes, now=now)
    slots_release([(tip.queue_id, slots[tip.id]) for tip in waiting if tip.id in slots], now=now)
    if running:
        wakeups.work_after_commit()


def _no_retry(tip: LockedSession, by: str) -> Change:
    facts = {"by": by, "decision": {"state": "cancelled"}}
    return Change(
        tip,
        {"retry_state": RetryState.CANCELLED.value},
        [Event("session.retry_cancelled", facts)],
    )


def _terminating(tip: LockedSession, message: str, now: datetime) -> Change:
    values = {"status": Status.TERMINATING, "terminating_at": now, "status_message": message}
    return Change(tip, values, [Event("session.terminating", {"reason": message})])
