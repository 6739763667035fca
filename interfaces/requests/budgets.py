"""The query of the list of shared retry budgets."""

from interfaces.requests.queries import PageQuery, Text


class BudgetFilter(PageQuery):
    """The query parameters of `GET /retry-budgets/`."""

    project: Text | None = None
    """`domain/name`: only those of the project and of its queues."""
