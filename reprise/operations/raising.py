"""Raising the burst of a shared retry budget: what operators do at once about one that is spent."""

from dataclasses import dataclass

from retry.policies.shared_budget import MOST_BURST, SharedBudget
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.core.versions import Expected
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Queue, RetrySettings
from sessions_app.selectors.retry_budgets import budget_holds
from sessions_app.selectors.retry_config import settings_of
from sessions_app.services.resources.queues import queue_save, queue_version
from sessions_app.services.resources.retry_config import layer_version, retry_settings_put

LEAST_MORE = 10


@dataclass(frozen=True, slots=True)
class Raisable:
    """A shared budget, and whose it is."""

    of: ConfigScope | Queue
    row: RetrySettings | Queue
    """The record that has it."""
    key: str
    name: str
    budget: SharedBudget

    @property
    def whose(self) -> str:
        """Return the name for sentences."""
        return "the cluster" if self.name == self.key else self.name

    @property
    def held(self) -> int:
        """Return the number of retries that it holds."""
        return budget_holds(self.key)

    def suggested(self, held: int) -> int:
        """Return a burst that lets go what it holds, and at least doubles it."""
        burst = self.budget.burst
        return min(burst + max(held, burst, LEAST_MORE), MOST_BURST)


def raisable(of: ConfigScope | Queue) -> Raisable:
    """Return the budget of a scope or a queue. Raises `NotFound` if it has none."""
    if isinstance(of, Queue):
        name, key = f"{of.project.address}/{of.name}", f"queue:{of.pk}"
        row: RetrySettings | Queue | None = of
    else:
        name, key, row = of.name, of.budget_key, settings_of(of)
    if row is None or row.retry_budget is None:
        raise NotFound(f"{name} has no shared retry budget")
    return Raisable(of, row, key, name, SharedBudget.model_validate(row.retry_budget))


def burst_raise(found: Raisable, typed: str, *, by: str) -> int:
    """Raise the burst of a budget to what was typed, and return that.

    Raises `InvalidInput` unless it is a larger whole number, `Outdated` if somebody changed the
    budget since it was read.
    """
    most, least = MOST_BURST, found.budget.burst + 1
    burst = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 9 else 0
    if not least <= burst <= most:
        raise InvalidInput({"burst": [f"must be a whole number from {least:,} to {most:,}"]})
    budget = found.budget.model_copy(update={"burst": burst}).stored()
    if isinstance(found.of, Queue):
        expected = Expected(frozenset({queue_version(found.of)}))
        found.of.retry_budget = budget
        queue_save(found.of, by=by, fields=("retry_budget",), expected=expected)
    elif isinstance(found.row, RetrySettings):
        expected = Expected(frozenset({layer_version(found.row)}))
        retry_settings_put(found.of, by=by, expected=expected, retry_budget=budget)
    return burst
