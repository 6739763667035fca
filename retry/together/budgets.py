"""The shared budgets of the cluster, of domains, projects and queues while past chains are retried.

All times are seconds since the epoch, and never go back.
"""

from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Generic, TypeVar

from retry.engine.decision import SpentBudget
from retry.policies.shared_budget import SharedBudget, WhenOver
from retry.shared_budgets import MINUTE, Book, Standing, edges
from retry.simulate import Place

Retry = TypeVar("Retry")
Order = tuple[float, int]
"""When a chain was submitted, and a number that no other has."""


class _Minutes:
    """How many first attempts and retries there were, by minutes since the epoch."""

    def __init__(self) -> None:
        self._minutes: list[int] = []
        self._sums: list[tuple[int, int]] = []
        """Of all minutes up to each."""

    def add(self, now: float, first_attempts: int, retries: int) -> None:
        minute = int(now // MINUTE)
        before = self._sums[-1] if self._sums else (0, 0)
        if not self._minutes or self._minutes[-1] < minute:
            self._minutes.append(minute)
            self._sums.append(before)
        self._sums[-1] = before[0] + first_attempts, before[1] + retries

    def since(self, minute: int) -> tuple[int, int]:
        at = bisect_left(self._minutes, minute)
        before = self._sums[at - 1] if at else (0, 0)
        last = self._sums[-1] if self._sums else (0, 0)
        return last[0] - before[0], last[1] - before[1]


class _Scope(Generic[Retry]):
    """A budget, what was made of it, and the line of the retries that wait for it."""

    def __init__(self, key: str, budget: SharedBudget):
        self.key, self.budget = key, budget
        self.minutes = _Minutes()
        self.line: list[tuple[Order, Retry]] = []

    def standing(self, now: float) -> Standing:
        retries, first_attempts = edges(self.budget.window, now)
        head = datetime.fromtimestamp(self.line[0][0][0], UTC) if self.line else None
        return Standing(
            self.budget.limit,
            self.minutes.since(first_attempts)[0],
            self.minutes.since(retries)[1],
            head,
        )


class Budgets(Generic[Retry]):
    """These shared budgets, by the keys of their scopes."""

    def __init__(self, rules: Mapping[str, SharedBudget]):
        self._scopes: dict[str, _Scope[Retry]] = {
            key: _Scope(key, budget) for key, budget in rules.items()
        }
        self.longest = max((each.window for each in rules.values()), default=0)
        """Seconds after which nothing counts any more."""

    def submitted(self, place: Place, now: float) -> None:
        """Count a first attempt."""
        for each in self._of(place):
            each.minutes.add(now, 1, 0)

    def spent(self, place: Place, now: float) -> tuple[SpentBudget, ...]:
        """Return the budgets that end a chain instead of another retry."""
        return tuple(
            SpentBudget(each.key.partition(":")[0], each.budget.platform)
            for each in self._of(place)
            if each.budget.over is WhenOver.FAIL and not each.standing(now).room
        )

    def full(self, place: Place, submitted: float, now: float, *, platform: bool) -> str:
        """Return the scope for which a retry has to wait; "" for none."""
        asked = [
            each
            for each in self._of(place)
            if each.budget.over is WhenOver.POSTPONE and (each.budget.platform or not platform)
        ]
        book = Book({each.key: each.standing(now) for each in asked})
        return book.take([each.key for each in asked], _moment(submitted)) or ""

    def charge(self, place: Place, now: float, *, platform: bool) -> None:
        """Count a retry."""
        for each in self._of(place):
            if each.budget.platform or not platform:
                each.minutes.add(now, 0, 1)

    def wait(self, key: str, order: Order, retry: Retry) -> None:
        """Put a retry into the line of a scope."""
        heappush(self._scopes[key].line, (order, retry))

    def leave(self, now: float) -> list[Retry]:
        """Return the retries for which there is room, of the oldest chains; they wait no more."""
        found = []
        for each in self._scopes.values():
            room = each.standing(now).room if each.line else 0
            found += [heappop(each.line)[1] for _ in range(min(room, len(each.line)))]
        return found

    @property
    def any_waits(self) -> bool:
        """Return whether a retry waits."""
        return any(each.line for each in self._scopes.values())

    def waiting(self) -> list[Retry]:
        """Return all that wait."""
        return [retry for each in self._scopes.values() for _, retry in sorted(each.line)]

    def _of(self, place: Place) -> list[_Scope[Retry]]:
        return [self._scopes[each] for each in place.scopes if each in self._scopes]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
