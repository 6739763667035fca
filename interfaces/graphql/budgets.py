"""Shared retry budgets in GraphQL."""

from typing import Any

from interfaces.graphql.connections import (
    Page,
    connection_source,
    connection_to,
    pages,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.peers import Peers, one_by_one
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.http.paging import offset_of
from interfaces.render.budget_render import budget_json
from interfaces.requests.budgets import BudgetFilter
from interfaces.shapes import budget_shapes as shapes
from sessions_app.locks import database_now
from sessions_app.selectors.retry_budgets import budgets_listed

_Shape: Any = shape_of(shapes.RetryBudget)


class RetryBudget(_Shape, RestObject):
    """A shared retry budget, and how it stands in its window."""


RetryBudgetConnection = connection_to(RetryBudget)
_render = one_by_one(budget_json)


class BudgetQueries:
    """The root fields of shared retry budgets."""

    retry_budgets = pages(
        RetryBudgetConnection,
        "The shared retry budgets: the cluster's, then those of domains, projects and queues.",
        **arguments_of(BudgetFilter),
    )

    @staticmethod
    def resolve_retry_budgets(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        given = read_arguments(BudgetFilter, asked)
        offset = offset_of(page.after)
        rows = budgets_listed(
            actor_of(info),
            given.project,
            now=database_now(),
            offset=offset,
            limit=page.first + 1,
        )
        cursors = [str(offset + at + 1) for at in range(len(rows))]
        found = slice_of(rows, page, cursors)
        return connection_source(found, page, Peers(RetryBudget, found.rows, _render).each())
