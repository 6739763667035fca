"""The number of an attempt and the budget that binds its chain, in the words of every door."""

from collections.abc import Sequence

from retry.engine.budgets import FAILURE_BUDGET, MANUAL_BUDGET, PREEMPTION_BUDGET, Budget
from retry.engine.decision import Settings
from retry.explain.step_facts import Facts
from retry.policies.fields import DEFAULT_RULE
from retry.units.durations import in_words

_ALL_CHAINS = "all"
"""Not a counter, but the limit of retries for every chain."""

_SPENT_OF = {
    "max_retries": FAILURE_BUDGET,
    "preemption_budget": PREEMPTION_BUDGET,
    "global_limit": _ALL_CHAINS,
}
"""The budget that a refusal found spent, by its reason; a rule's budget is in the decision."""
_INLINE = frozenset({FAILURE_BUDGET, PREEMPTION_BUDGET})
_RULE_REFUSALS = frozenset({"rule_limit", "default_limit"})


def attempt_words(
    retry_count: int,
    decision_fields: Facts | None,
    budgets: Sequence[Budget],
    settings: Settings,
    *,
    ended: bool,
) -> str:
    """Say which attempt it is, from 1, and which budget binds: `attempt 3; 2 of 2 retries for
    failures used`. Budgets are never summed.

    After a decision, this is the budget that pays for the retry or was found spent. Before one, it
    is the one of `open_budgets` with the least left.
    """
    binding = None
    if decision_fields is not None:
        binding = _of_decision(decision_fields, [*budgets, *_everybody(retry_count, settings)])
    elif not ended:
        binding = _tightest(retry_count, budgets, settings)
    number = f"attempt {retry_count + 1}"
    return f"{number}; {_spent(binding)}" if binding else number


def budget_words(name: str) -> str:
    """Return the words for a budget's retries: `retries for failures`."""
    known = _NAMES.get(name)
    if known is not None:
        return known
    policy, _, rule = name.rpartition("/")
    return f"default retries of policy {policy}" if rule == DEFAULT_RULE else f"retries of {name}"


_NAMES = {
    FAILURE_BUDGET: "retries for failures",
    PREEMPTION_BUDGET: "retries for preemptions",
    MANUAL_BUDGET: "retries by hand",
    _ALL_CHAINS: "retries that any chain may have",
}


def _spent(budget: Budget) -> str:
    words = budget_words(budget.name)
    if budget.limit is not None and budget.window is not None:
        return f"{budget.used} {words} used, at most {budget.limit} in {in_words(budget.window)}"
    of = "" if budget.limit is None else f" of {budget.limit}"
    return f"{budget.used}{of} {words} used"


def _of_decision(fields: Facts, known: Sequence[Budget]) -> Budget | None:
    """Return the budget that was found spent, or that pays for the retry.

    A manual retry after a refusal does not change the spent budget; its own budget binds nothing.
    Of one with a window, all that it ever paid is told, as before the decision.
    """
    used, limit = fields.get("used"), fields.get("limit")
    reason, paid_by = str(fields.get("reason")), fields.get("paid_by")
    spent = fields.get("rule") if reason in _RULE_REFUSALS else _SPENT_OF.get(reason)
    name = spent or paid_by
    if not isinstance(name, str) or name == MANUAL_BUDGET:
        return None
    found = next((budget for budget in known if budget.name == name), None)
    # The used and limit of a retry by hand replaced those of the spent one.
    if paid_by == MANUAL_BUDGET or (found and found.window is not None):
        return found
    return Budget(name, used, limit) if isinstance(used, int) else None


def _everybody(retry_count: int, settings: Settings) -> list[Budget]:
    """Return the limit of all chains as a budget; nothing if there is none."""
    limit = settings.global_max_retries
    return [] if limit is None else [Budget(_ALL_CHAINS, min(retry_count, limit), limit)]


def _tightest(retry_count: int, budgets: Sequence[Budget], settings: Settings) -> Budget | None:
    """Return the budget with the least left, of equal ones the first; None if nothing binds.

    Beside a policy that is unlimited, the limit of all chains is not told: the chain has no number.
    """
    if not budgets:
        return None
    own = [budget for budget in budgets if budget.limit]
    unlimited = any(budget.limit is None and budget.name in _INLINE for budget in budgets)
    binding = own if unlimited else [*own, *_everybody(retry_count, settings)]
    return min(binding, key=_surely_left, default=None)


def _surely_left(budget: Budget) -> int:
    """Return how many retries it can pay for now, at least; one with a window is never spent here:
    what it has paid within the window is not known."""
    left = (budget.limit or 0) - budget.used
    return max(left, 0 if budget.window is None else 1)
