"""Shared retry budgets, as calls."""

from collections.abc import Iterator
from typing import Any

from reprise_client.calls import Calls
from reprise_client.models import RetryBudget


class RetryBudgetCalls(Calls):
    """The calls about shared retry budgets, which change nothing.

    They are set as `retry_budget` by `retry_settings_update` and by the calls of queues.
    """

    def retry_budgets(self, **filters: Any) -> Iterator[RetryBudget]:
        """Yield the shared retry budgets of all scopes that one may see, and how they stand: the
        cluster's first.

        `filters`: `project`, for those of a project and its queues.
        """
        return self._pages(RetryBudget, "/retry-budgets/", filters)
