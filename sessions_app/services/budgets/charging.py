"""Dispatch asks here which retries a shared budget lets go, and charges those that went.

Both happen under the lock of the slots, so that two dispatchers never use the same room.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from retry.engine.budgets import MANUAL_BUDGET, SCHEDULER_BUDGET
from retry.policies.shared_budget import WhenOver
from retry.shared_budgets import MINUTE, Book
from sessions_app.db.bulk import columns
from sessions_app.db.writes import write
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.in_force.shared_budgets import BudgetInForce, of_queue
from sessions_app.locks import LockedSession, StoredDecision, lock_slots
from sessions_app.selectors.retry_budgets import standings_of

UNCOUNTED = frozenset({MANUAL_BUDGET, SCHEDULER_BUDGET})
"""Payers whose retries neither count in a shared budget nor wait for one."""

_CHARGE = """
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(v.minute * 60), v.first_attempts, v.retries
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS v(scope, minute, first_attempts, retries)
    ORDER BY 1, 2
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries,
        first_attempts = m.first_attempts + excluded.first_attempts
"""


def minutes_add(counts: Mapping[tuple[str, int], tuple[int, int]]) -> None:
    """Add first attempts and retries to minutes (since the epoch) of scopes."""
    if counts:
        rows = [(*at, *both) for at, both in sorted(counts.items())]
        write(_CHARGE, columns(rows))


class BudgetsSpent(Exception):
    """Some of the retries have to wait for a shared budget."""


class BudgetGate:
    """The shared budgets of due retries: which of them have to wait, and what the others cost.

    Without a budget no statement runs. The caller holds the roots of the chains.
    """

    def __init__(
        self,
        ready: Sequence[LockedSession],
        decisions: Mapping[UUID, StoredDecision],
        scopes: Mapping[int, RetryScope],
        *,
        now: datetime,
    ):
        self._now = now
        self._counting = {
            session.id: counting
            for session in ready
            if (counting := _counting(session, decisions[session.id], scopes))
        }

    @property
    def spent(self) -> bool:
        """Return whether the sweep found one of the budgets spent, some seconds ago."""
        return any(each.spent for counting in self._counting.values() for each in counting)

    def over(self, ready: Sequence[LockedSession]) -> dict[UUID, str]:
        """Return those of the retries that have to wait, each with the key of the scope.

        From here to its end the transaction holds the lock, if one of them counts in a budget.
        """
        waits = {
            session.id: [each for each in counting if each.budget.over is WhenOver.POSTPONE]
            for session in ready
            if (counting := self._counting.get(session.id))
        }
        if not waits:
            return {}
        lock_slots()
        limits = {each.scope: each.budget.limit for found in waits.values() for each in found}
        book = Book(standings_of(limits, now=self._now))
        over: dict[UUID, str] = {}
        for session in sorted(ready, key=lambda each: (each.root_submitted_at, each.id)):
            asked = [each.scope for each in waits.get(session.id, ())]
            if scope := book.take(asked, session.root_submitted_at):
                over[session.id] = scope
        return over

    def charge(self, sent: Iterable[UUID]) -> None:
        """Count the retries of these sessions, whose children this transaction makes."""
        minute = int(self._now.timestamp()) // MINUTE
        taken = Counter(
            each.scope for session_id in sent for each in self._counting.get(session_id, ())
        )
        minutes_add({(scope, minute): (0, retries) for scope, retries in taken.items()})


def _counting(
    session: LockedSession, decision: StoredDecision, scopes: Mapping[int, RetryScope]
) -> list[BudgetInForce]:
    """Return the budgets in which a retry counts."""
    if decision.requested_by or decision.paid_by in UNCOUNTED:
        return []
    budgets = of_queue(scopes[session.project_id].budgets, session.queue_id)
    return [each for each in budgets if each.counts(decision.cause)]
