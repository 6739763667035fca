"""Dispatch: due retries become child sessions, each exactly once whoever dispatches it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, connection

from retry.engine.budgets import SCHEDULER_BUDGET
from sessions_app import wakeups
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import (
    SCOPES,
    RetryScope,
    scopes_in,
    storm_limits_of,
)
from sessions_app.locks import (
    LockedSession,
    StoredDecision,
    claim_due,
)
from sessions_app.services.budgets.charging import BudgetGate, has_no_room
from sessions_app.services.chains.breaker_holds import breakers_hold, breakers_holding
from sessions_app.services.chains.children import Retry, children_create
from sessions_app.services.chains.decisions import decisions_postpone
from sessions_app.services.chains.over_budget import retries_hold_over_budget
from sessions_app.services.chains.storm_slots import slots_count, slots_reserve
from sessions_app.services.chains.switch_holds import switch_hold, switch_holds
from sessions_app.services.write.transitions import Change, Event, fact, sessions_change

BATCH = 200
TRIES = 5
"""To dispatch after a commit was refused because others used up a shared budget."""
OVER_THE_LIMIT = "over the limit of retries a minute"


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """The counts of one batch."""

    claimed: int
    dispatched: int
    held: int
    postponed: int = 0


def retries_dispatch(limit: int = BATCH) -> DispatchResult:
    """Turn at most `limit` due decisions into children.

    Hold those whose switch is not on or whose shared budget is spent, and postpone those over a
    storm limit to their slots.
    """
    for judge_first in (False, *[True] * TRIES):
        try:
            with atomic_step("dispatch") as writes:
                return _dispatch(writes, limit, judge_first=judge_first)
        except IntegrityError as error:
            if not has_no_room(error):
                raise
    # Others were faster each time. What is due still is comes with the next sweep.
    return DispatchResult(0, 0, 0)


def _dispatch(writes: Writes, limit: int, *, judge_first: bool = False) -> DispatchResult:
    """Dispatch a batch.

    The commit charges the shared budgets, and is refused if one turns out to be spent. So it is to
    `judge_first` after that, as it does where a budget was spent some seconds ago, or where storm
    limits give slots to those that go.
    """
    found = claim_due(limit, SCOPES)
    if found is None:
        return DispatchResult(0, 0, 0)
    now = found.now
    due = [session for session, _ in found.retries]
    decisions = {session.id: decision for session, decision in found.retries}
    scopes = scopes_in(found.about, (session.project_id for session in due))
    held = [s for s in due if switch_holds(scopes[s.project_id], decisions[s.id])]
    passed = {session.id for session in held}
    broken = breakers_holding([s for s in due if s.id not in passed], decisions, scopes)
    passed |= {session.id for session, _ in broken}
    ready = [s for s in due if s.id not in passed]
    switch_hold(writes, held, now=now)
    breakers_hold(writes, broken, now)
    gate = BudgetGate(ready, decisions, scopes, now=now)
    limited = storm_limits_of(scopes).limited
    over = gate.over(ready, limited=limited) if judge_first or gate.spent or limited else {}
    retries_hold_over_budget(writes, [(s, over[s.id]) for s in ready if s.id in over], now=now)
    ready = [s for s in ready if s.id not in over]
    late = _postpone(writes, ready, decisions, scopes, now)
    sent = [s for s in ready if s.id not in late]
    # One round trip; what they change of the counters of quotas goes last.
    with writes.together():
        children_create(writes, [_retry(s, decisions[s.id]) for s in sent], scopes, now=now)
        gate.charge(writes, sent)
    return DispatchResult(len(due), len(sent), len(passed) + len(over), len(late))


def _retry(session: LockedSession, decision: StoredDecision) -> Retry:
    return Retry(
        session,
        decision.paid_by,
        decision,
        by=decision.requested_by,
        resources=decision.resources,
        changes=decision.changes,
    )


def _postpone(
    writes: Writes,
    ready: Sequence[LockedSession],
    decisions: Mapping[UUID, StoredDecision],
    scopes: Mapping[int, RetryScope],
    now: datetime,
) -> dict[UUID, datetime]:
    """Give slots to retries without one, in their order; who made room for others needs none.

    Probes of open breakers go at once and are only counted: in a long line, their time would be
    over before their turn. Return the times of those whose slot is in the future.
    """
    without_slot = [
        session
        for session in ready
        if not decisions[session.id].paced and decisions[session.id].paid_by != SCHEDULER_BUDGET
    ]
    probes = {each.probe for scope in scopes.values() for each in scope.breakers}
    in_line = [session for session in without_slot if str(session.id) not in probes]
    probing = [session.queue_id for session in without_slot if str(session.id) in probes]
    limits = storm_limits_of(scopes)
    slots_count(probing, limits, now=now)
    slots = slots_reserve([session.queue_id for session in in_line], limits, now=now)
    late = {
        session.id: (session, slot)
        for session, slot in zip(in_line, slots, strict=True)
        if slot > now
    }
    if late:
        decisions_postpone([(session_id, slot) for session_id, (_, slot) in late.items()])
        changes = [_postponed(session, slot) for session, slot in late.values()]
        sessions_change(writes, changes, now=now)
        wakeups.retries_due_after_commit([slot for _, slot in late.values()], now=now)
    return {session_id: slot for session_id, (_, slot) in late.items()}


def _postponed(session: LockedSession, slot: datetime) -> Change:
    due_at = fact(slot)
    facts = {"reason": OVER_THE_LIMIT, "due_at": due_at, "decision": {"due_at": due_at}}
    return Change(session, {}, [Event("session.retry_postponed", facts)])


def next_due() -> float | None:
    """Return the seconds until the next retry is due (negative: overdue); None without one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 "
            "FROM sessions_app_retrydecision WHERE state = 'scheduled' ORDER BY due_at LIMIT 1"
        )
        row: tuple[float] | None = cursor.fetchone()
    return None if row is None else row[0]
