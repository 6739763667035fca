"""Renders shared retry budgets."""

from typing import Any

from sessions_app.selectors.retry_budgets import BudgetShown


def budget_json(shown: BudgetShown) -> dict[str, Any]:
    """Return a budget, and how it stands."""
    standing = shown.standing
    return {
        "scope": shown.name,
        "level": shown.key.partition(":")[0],
        "key": shown.key,
        **shown.budget.stored(),
        "first_attempts": standing.first_attempts,
        "retries": standing.retries,
        "allowed": standing.limit.allowed(standing.first_attempts),
        "left": standing.room,
        "held": shown.held,
        "spent_since": shown.spent_since,
        "spent_times": shown.spent_times,
    }
