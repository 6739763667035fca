"""Dispatch asks here which retries a shared budget lets go, and charges those that went.

Both happen under the lock of the slots, so that two dispatchers never use the same room. One lock
for all guards the budgets, so dispatch takes it last, when all else is written.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic_core import from_json

from retry.engine.budgets import MANUAL_BUDGET, SCHEDULER_BUDGET
from retry.policies.shared_budget import WhenOver
from retry.shared_budgets import MINUTE, Book, Limit, Standing, edges
from sessions_app.db.bulk import columns
from sessions_app.db.writes import Answer, ask, write
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.in_force.shared_budgets import BudgetInForce, of_queue
from sessions_app.locks import AdvisoryLock, LockedSession, StoredDecision, lock_slots
from sessions_app.selectors.retry_budgets import standings_of

UNCOUNTED = frozenset({MANUAL_BUDGET, SCHEDULER_BUDGET})
"""Payers whose retries neither count in a shared budget nor wait for one."""

_COUNT = """
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(v.minute * 60), v.first_attempts, v.retries
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS v(scope, minute, first_attempts, retries)
    ORDER BY 1, 2
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries,
        first_attempts = m.first_attempts + excluded.first_attempts
"""

_CHARGE = """
    (SELECT json_agg(json_build_array(c.of, c.first_attempts, c.retries, c.head))::text
    FROM reprise_charge_budgets(%s, %s, %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) c)
"""


def minutes_add(counts: Mapping[tuple[str, int], tuple[int, int]]) -> None:
    """Add first attempts and retries to minutes (since the epoch) of scopes."""
    if counts:
        rows = [(*at, *both) for at, both in sorted(counts.items())]
        write(_COUNT, columns(rows))


class BudgetsSpent(Exception):
    """Some of the retries have to wait for a shared budget: the transaction must be rolled back."""


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
        limits = self._limits(each for session in ready for each in self._waits(session))
        if not limits:
            return {}
        lock_slots()
        return self.waiting(ready, Book(standings_of(limits, now=self._now)))

    def charge(self, sent: Sequence[LockedSession]) -> "Charge":
        """Count the retries of these sessions, whose children this transaction makes.

        It takes the lock. The caller writes the children in the same block of `together`, as the
        last statement of the transaction if possible: all other dispatchers wait for its commit.
        """
        taken = Counter(each.scope for session in sent for each in self._counted(session))
        if not taken:
            return Charge(self, sent, {}, None)
        limits = self._limits(each for session in sent for each in self._counted(session))
        rows = [
            (scope, *edges(limits[scope].window, self._now.timestamp()), count)
            for scope, count in taken.items()
        ]
        minute = int(self._now.timestamp()) // MINUTE
        asked = [AdvisoryLock.RETRY_SLOTS, minute, *columns(rows)]
        return Charge(self, sent, limits, ask(_CHARGE, asked))

    def waiting(self, asking: Sequence[LockedSession], book: Book) -> dict[UUID, str]:
        """Return those of the retries that have to wait by a book of their budgets."""
        over: dict[UUID, str] = {}
        for session in sorted(asking, key=lambda each: (each.root_submitted_at, each.id)):
            asked = [each.scope for each in self._waits(session)]
            if scope := book.take(asked, session.root_submitted_at):
                over[session.id] = scope
        return over

    def _counted(self, session: LockedSession) -> Sequence[BudgetInForce]:
        return self._counting.get(session.id, ())

    def _waits(self, session: LockedSession) -> list[BudgetInForce]:
        """Return the budgets for which a retry may have to wait."""
        return [each for each in self._counted(session) if each.budget.over is WhenOver.POSTPONE]

    def _limits(self, budgets: Iterable[BudgetInForce]) -> dict[str, Limit]:
        return {each.scope: each.budget.limit for each in budgets}


@dataclass(frozen=True, slots=True)
class Charge:
    """Retries that count in their budgets from now on, if the transaction commits."""

    gate: BudgetGate
    sent: Sequence[LockedSession]
    limits: Mapping[str, Limit]
    stood: Answer | None
    """How the scopes stood before; None: nothing counts."""

    def over(self) -> dict[UUID, str]:
        """Return those that should have waited, as `BudgetGate.over` does: then the transaction has
        to be rolled back."""
        if self.stood is None:
            return {}
        standings = {
            scope: Standing(
                self.limits[scope], first, retries, head and datetime.fromisoformat(head)
            )
            for scope, first, retries, head in from_json(self.stood.value)
        }
        return self.gate.waiting(self.sent, Book(standings))


def _counting(
    session: LockedSession, decision: StoredDecision, scopes: Mapping[int, RetryScope]
) -> list[BudgetInForce]:
    """Return the budgets in which a retry counts."""
    if decision.requested_by or decision.paid_by in UNCOUNTED:
        return []
    budgets = of_queue(scopes[session.project_id].budgets, session.queue_id)
    return [each for each in budgets if each.counts(decision.cause)]
