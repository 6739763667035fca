"""Retries whose shared budget is spent wait in a line of its scope; the oldest chain leaves first.

Dispatch puts them there, and charges them when they come back: this module only lets as many go as
there seems to be room for.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from retry.engine.decide import Mode
from retry.engine.decision import SHARED_BUDGET
from retry.policies.shared_budget import SharedBudget, WhenOver
from sessions_app import wakeups
from sessions_app.core.states import RetryState
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import SCOPES, RetryScope, scopes_in
from sessions_app.in_force.shared_budgets import of_queue
from sessions_app.locks import (
    LockedSession,
    StoredDecision,
    claim_over_budget,
    database_now,
    lock_retries,
)
from sessions_app.selectors.retry_budgets import standings_of
from sessions_app.selectors.uncharged_retries import standings_after
from sessions_app.services.budgets.sweep import budgets_found
from sessions_app.services.chains.decisions import Hold, decisions_hold, decisions_resume
from sessions_app.services.chains.switch_holds import switch_hold
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 200
MOST_BATCHES = 20
"""Of one line in one run."""
SPENT = "the shared retry budget is spent"
ROOM = "the shared retry budget has room again"

# Each step of the recursion is one probe of an index.
_LINES = """
    WITH RECURSIVE lines(key) AS (
        (SELECT held_key FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'shared_budget' ORDER BY held_key LIMIT 1)
        UNION ALL
        SELECT (SELECT held_key FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'shared_budget' AND held_key > l.key
            ORDER BY held_key LIMIT 1)
        FROM lines l WHERE l.key IS NOT NULL
    )
    SELECT key FROM lines WHERE key IS NOT NULL
"""


def retries_hold_over_budget(
    writes: Writes, over: Sequence[tuple[LockedSession, str]], *, now: datetime
) -> None:
    """Put retries into the lines of the scopes (by their keys) whose budgets are spent."""
    if not over:
        return
    holds = [
        Hold(session.id, SHARED_BUDGET, scope, session.root_submitted_at, {"scope": _level(scope)})
        for session, scope in over
    ]
    decisions_hold(holds, now=now)
    sessions_change(writes, [_held(session, scope) for session, scope in over], now=now)


def _level(scope: str) -> str:
    return scope.partition(":")[0]


def _held(session: LockedSession, scope: str) -> Change:
    facts = {
        "reason": SPENT,
        "held_for": SHARED_BUDGET,
        "budget": _level(scope),
        "decision": {"state": "held"},
    }
    event = Event("session.retry_postponed", facts)
    return Change(session, {"retry_state": RetryState.HELD.value}, [event])


def over_budget_resume() -> int:
    """Let retries go for which their shared budgets have room. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_LINES)
        lines = [row[0] for row in cursor.fetchall()]
    if not lines:
        return 0
    budgets = budgets_found().budgets
    return sum(_resume_line(scope, budgets.get(scope)) for scope in lines)


def _resume_line(scope: str, budget: SharedBudget | None) -> int:
    resumed = 0
    for _ in range(MOST_BATCHES):
        with atomic_step("resume") as writes:
            claimed, gone = _resume(writes, scope, budget)
        resumed += gone
        if claimed < BATCH:
            break
    return resumed


def _resume(writes: Writes, scope: str, budget: SharedBudget | None) -> tuple[int, int]:
    """Let a batch of a line go. Return how many were looked at, and how many go."""
    now = database_now()
    room = BATCH if budget is None else min(BATCH, _room(scope, budget, now))
    claimed = claim_over_budget(scope, room) if room > 0 else []
    if not claimed:
        return 0, 0
    roots = [root for _, root in claimed]
    locked, about = lock_retries(roots, [session for session, _ in claimed], SCOPES)
    waiting = [pair for pair in locked if _waits(pair[1])]
    scopes = scopes_in(about, (session.project_id for session, _ in waiting))
    switched = [s for s, _ in waiting if scopes[s.project_id].settings.mode is not Mode.ON]
    rest = [pair for pair in waiting if pair[0] not in switched]
    elsewhere = _elsewhere(scope, rest, scopes, now)
    ready = [s for s, _ in rest if s.id not in elsewhere]
    switch_hold(writes, switched, now=now)
    moved = [(s, elsewhere[s.id]) for s, _ in rest if s.id in elsewhere]
    retries_hold_over_budget(writes, moved, now=now)
    _let_go(writes, ready, {s.id: d for s, d in rest}, now)
    return len(claimed), len(ready)


def _room(scope: str, budget: SharedBudget, now: datetime) -> int:
    """Return how many retries may leave a line: less those that go already, but are not charged
    yet, since dispatch has not come to them, or since they wait for their slots."""
    if budget.over is not WhenOver.POSTPONE:
        return BATCH
    return standings_after({scope: budget}, now=now, due=now)[scope].room


def _waits(decision: StoredDecision) -> bool:
    """Return whether it still stands in a line: somebody may have come before our lock."""
    return decision.state == "held" and decision.held_for == SHARED_BUDGET


def _elsewhere(
    line: str,
    waiting: Sequence[tuple[LockedSession, StoredDecision]],
    scopes: dict[int, RetryScope],
    now: datetime,
) -> dict[UUID, str]:
    """Return the other scopes for which retries have to wait now, by their sessions."""
    asked = {
        session.id: [
            each
            for each in of_queue(scopes[session.project_id].budgets, session.queue_id)
            if each.scope != line
            and each.counts(decision.cause)
            and each.budget.over is WhenOver.POSTPONE
        ]
        for session, decision in waiting
    }
    limits = {each.scope: each.budget.limit for found in asked.values() for each in found}
    full = {scope for scope, each in standings_of(limits, now=now).items() if not each.room}
    spent = {
        session_id: [each.scope for each in found if each.scope in full]
        for session_id, found in asked.items()
    }
    return {session_id: found[0] for session_id, found in spent.items() if found}


def _let_go(
    writes: Writes,
    sessions: Sequence[LockedSession],
    decisions: dict[UUID, StoredDecision],
    now: datetime,
) -> None:
    if not sessions:
        return
    decisions_resume([session.id for session in sessions], now=now)
    event = Event("session.retry_scheduled", {"reason": ROOM, "decision": {"state": "scheduled"}})
    state = {"retry_state": RetryState.SCHEDULED.value}
    sessions_change(writes, [Change(session, state, [event]) for session in sessions], now=now)
    wakeups.retries_due_after_commit([decisions[s.id].due_at for s in sessions], now=now)
