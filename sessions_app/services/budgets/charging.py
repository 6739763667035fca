"""Dispatch asks here which retries a shared budget lets go, and charges those that went.

One lock for all guards the budgets, so that two dispatchers never use the same room. The commit
takes it, or shares it while there is much room (`migrations/sql/retries.sql`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import IntegrityError

from retry.policies.shared_budget import WhenOver
from retry.shared_budgets import MINUTE, Book, Edges, Limit, edges
from sessions_app.db.bulk import SentRows, columns
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.in_force.shared_budgets import UNCOUNTED, BudgetInForce, of_queue
from sessions_app.locks import LockedSession, StoredDecision
from sessions_app.selectors.retry_budgets import standings_of
from sessions_app.selectors.uncharged_retries import standings_after

_COUNT = """
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(v.minute * 60), v.first_attempts, v.retries
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS v(scope, minute, first_attempts, retries)
    ORDER BY 1, 2
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries,
        first_attempts = m.first_attempts + excluded.first_attempts
"""


class _Charge(NamedTuple):
    """The retries that a scope pays. `newest` is of their chains; None where none has to wait."""

    scope: str
    limit: Limit
    edges: Edges
    made: int
    newest: datetime | None


_CHARGES = SentRows[[_Charge]](
    ("scopes", "text", lambda charge: charge.scope),
    ("retries_from", "bigint", lambda charge: charge.edges.retries),
    ("attempts_from", "bigint", lambda charge: charge.edges.first_attempts),
    ("made", "bigint", lambda charge: charge.made),
    ("ratios", "numeric", lambda charge: charge.limit.ratio),
    ("bursts", "bigint", lambda charge: charge.limit.burst),
    ("newest", "timestamptz", lambda charge: charge.newest),
)
# A trigger charges them when the transaction commits, and deletes the row.
_CHARGE = _CHARGES.kept("sessions_app_retrycharge", {"minute": "%s"})


def minutes_add(writes: Writes, counts: Mapping[tuple[str, int], tuple[int, int]]) -> None:
    """Add first attempts and retries to minutes (since the epoch) of scopes."""
    if counts:
        rows = [(*at, *both) for at, both in sorted(counts.items())]
        writes.add(_COUNT, columns(rows))


def has_no_room(error: IntegrityError) -> bool:
    """Return whether a commit was refused because a shared budget was spent meanwhile."""
    return getattr(error.__cause__, "diag", None) is not None and (
        error.__cause__.diag.constraint_name == "retry_budget_has_room"  # type: ignore[union-attr]
    )


class _Kind(NamedTuple):
    """What says in which budgets a retry counts; many have it in common."""

    project_id: int
    queue_id: int
    cause: str


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
        self._budgets: dict[_Kind, list[BudgetInForce]] = {}
        self._kinds: dict[UUID, _Kind] = {}
        for session in ready:
            decision = decisions[session.id]
            if decision.requested_by or decision.paid_by in UNCOUNTED:
                continue
            kind = _Kind(session.project_id, session.queue_id, decision.cause)
            if kind not in self._budgets:
                self._budgets[kind] = _counting(kind, scopes)
            if self._budgets[kind]:
                self._kinds[session.id] = kind

    @property
    def spent(self) -> bool:
        """Return whether the sweep found one of the budgets spent, some seconds ago."""
        return any(each.spent for budgets in self._budgets.values() for each in budgets)

    def over(self, ready: Sequence[LockedSession], *, limited: bool) -> dict[UUID, str]:
        """Return those of the retries that have to wait, each with the key of the scope.

        It takes no lock: whether there is still room is judged when the transaction commits. Where
        storm limits make them `limited`, room is left for those that have their slots already.
        """
        asked = {each.scope: each.budget for session in ready for each in self._waits(session)}
        if limited:
            ids = [session.id for session in ready]
            standings = standings_after(asked, now=self._now, without=ids)
        else:
            limits = {scope: budget.limit for scope, budget in asked.items()}
            standings = standings_of(limits, now=self._now)
        book = Book(standings)
        over: dict[UUID, str] = {}
        for session in sorted(ready, key=lambda each: (each.root_submitted_at, each.root_id)):
            scopes = [each.scope for each in self._waits(session)]
            if scope := book.take(scopes, session.root_submitted_at):
                over[session.id] = scope
        return over

    def charge(self, writes: Writes, sent: Sequence[LockedSession]) -> None:
        """Let the commit count the retries of these sessions, whose children the transaction makes.

        It is refused if a budget has no room for them, or an older chain waits for it:
        `has_no_room`.
        """
        submitted: dict[_Kind, list[datetime]] = {}
        for session in sent:
            if kind := self._kinds.get(session.id):
                submitted.setdefault(kind, []).append(session.root_submitted_at)
        if not submitted:
            return
        taken: Counter[str] = Counter()
        newest: dict[str, datetime] = {}
        limits: dict[str, Limit] = {}
        for kind, times in submitted.items():
            for each in self._budgets[kind]:
                limits[each.scope] = each.budget.limit
                taken[each.scope] += len(times)
                if each.budget.over is WhenOver.POSTPONE:
                    newest[each.scope] = max(newest.get(each.scope, times[0]), *times)
        now = self._now.timestamp()
        charges = [
            _Charge(scope, limit, edges(limit.window, now), taken[scope], newest.get(scope))
            for scope, limit in limits.items()
        ]
        minute = int(now) // MINUTE
        writes.add(_CHARGE, [minute, *_CHARGES.arrays(charges)])

    def _waits(self, session: LockedSession) -> list[BudgetInForce]:
        """Return the budgets for which a retry may have to wait."""
        kind = self._kinds.get(session.id)
        budgets = self._budgets[kind] if kind else ()
        return [each for each in budgets if each.budget.over is WhenOver.POSTPONE]


def _counting(kind: _Kind, scopes: Mapping[int, RetryScope]) -> list[BudgetInForce]:
    """Return the budgets in which a retry of this kind counts."""
    budgets = of_queue(scopes[kind.project_id].budgets, kind.queue_id)
    return [each for each in budgets if each.counts(kind.cause)]
