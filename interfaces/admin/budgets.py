"""How a shared budget stands, beside its setting."""

from typing import Any

from interfaces.render.budget_render import budget_json
from sessions_app.locks import database_now
from sessions_app.selectors.retry_budgets import budget_shown


def budget_context(key: str) -> dict[str, Any] | None:
    """Return the budget of the scope with this key as `admin/_budget.html` shows it, or None."""
    now = database_now()
    found = budget_shown(key, now=now)
    return None if found is None else {**budget_json(found), "now": now}
