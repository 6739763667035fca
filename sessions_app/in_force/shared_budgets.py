"""The shared budgets that apply to the sessions of a project."""

import json
from dataclasses import dataclass
from functools import lru_cache

from retry.engine.budgets import MANUAL_BUDGET, SCHEDULER_BUDGET
from retry.engine.decision import SpentBudget
from retry.evidence.causes import PLATFORM_CAUSES
from retry.policies.shared_budget import SharedBudget, WhenOver

UNCOUNTED = frozenset({MANUAL_BUDGET, SCHEDULER_BUDGET})
"""Payers whose retries neither count in a shared budget nor wait for one."""
SCOPE_OF_SETTINGS = """
    CASE WHEN w.project_id IS NOT NULL THEN 'project:' || w.project_id
        WHEN w.domain_id IS NOT NULL THEN 'domain:' || w.domain_id ELSE 'cluster' END
"""
"""SQL of the key of the scope whose settings `w` are."""
BUDGETS = f"""
    SELECT json_agg(json_build_array(b.scope, b.queue_id, b.budget, EXISTS(
        SELECT FROM sessions_app_retrybudgetstate t WHERE t.scope = b.scope
            AND t.spent_since IS NOT NULL)))::text
    FROM (
        SELECT {SCOPE_OF_SETTINGS} AS scope, NULL::bigint AS queue_id, w.retry_budget AS budget
        FROM sessions_app_retrysettings w WHERE w.retry_budget IS NOT NULL AND (
            w.domain_id IS NULL AND w.project_id IS NULL
            OR w.domain_id = p.domain_id OR w.project_id = p.id)
        UNION ALL
        SELECT 'queue:' || q.id, q.id, q.retry_budget FROM sessions_app_queue q
        WHERE q.project_id = p.id AND q.retry_budget IS NOT NULL) b
"""
"""SQL of one value about the project `p` for `budgets_in`; null if it has no budget."""
JUDGED = """
    SELECT t.judged_at > statement_timestamp() - interval '1 minute'
    FROM sessions_app_retrybudgetstate t ORDER BY t.id LIMIT 1
"""
"""SQL of one value: whether the sweep of budgets judges them. It judges all at once, so each row
tells. A verdict that nobody has renewed for a minute says nothing."""


@dataclass(frozen=True, slots=True)
class BudgetInForce:
    """A shared budget, the key of its scope, and the verdict of the sweep about it."""

    scope: str
    queue_id: int | None
    """The queue that has it; None: all queues of the project count in it."""
    budget: SharedBudget
    spent: bool

    @property
    def level(self) -> str:
        """Return `cluster`, `domain`, `project` or `queue`."""
        return self.scope.partition(":")[0]

    def counts(self, cause: str) -> bool:
        """Return whether automatic retries after this cause count in it."""
        return counts_in(self.budget, cause)


PLATFORM = frozenset(cause.value for cause in PLATFORM_CAUSES)


def counts_in(budget: SharedBudget, cause: str) -> bool:
    """Return whether automatic retries after this cause count in a budget."""
    return budget.platform or cause not in PLATFORM


@lru_cache(maxsize=1024)
def budgets_in(text: str | None) -> tuple[BudgetInForce, ...]:
    """Return the budgets in the value of `BUDGETS`."""
    return tuple(
        BudgetInForce(scope, queue_id, SharedBudget.model_validate(budget), spent)
        for scope, queue_id, budget, spent in json.loads(text or "[]")
    )


def of_queue(budgets: tuple[BudgetInForce, ...], queue_id: int) -> list[BudgetInForce]:
    """Return those that the sessions of a queue count in."""
    return [each for each in budgets if each.queue_id in {None, queue_id}]


def postponing_budget(budgets: tuple[BudgetInForce, ...], queue_id: int) -> SpentBudget | None:
    """Return the first budget that holds retries of a queue, because it is spent."""
    waits = (
        SpentBudget(each.level, each.budget.platform)
        for each in of_queue(budgets, queue_id)
        if each.spent and each.budget.over is WhenOver.POSTPONE
    )
    return next(waits, None)


def spent_budgets(budgets: tuple[BudgetInForce, ...], queue_id: int) -> tuple[SpentBudget, ...]:
    """Return the budgets that let chains of a queue fail, because they are spent."""
    return tuple(
        SpentBudget(each.level, each.budget.platform)
        for each in of_queue(budgets, queue_id)
        if each.spent and each.budget.over is WhenOver.FAIL
    )
