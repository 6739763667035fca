"""Shared retry budgets over REST."""

from typing import ClassVar
from urllib.parse import urlencode

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.paging import offset_of
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.budget_render import budget_json
from interfaces.requests.budgets import BudgetFilter
from interfaces.requests.queries import query_of
from interfaces.shapes import budget_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.locks import database_now
from sessions_app.selectors.retry_budgets import budgets_listed


class RetryBudgetsView(RestView):
    """`/retry-budgets/`."""

    actions: ClassVar = {"GET": Action.BUDGET_LIST}

    @extend_schema(
        operation_id="retry_budgets_list",
        parameters=query_parameters(BudgetFilter),
        responses=shapes.RetryBudgetPage,
    )
    def get(self, request: Request) -> Response:
        """List the shared retry budgets and how they stand: the cluster's, then those of domains,
        projects and queues, by name."""
        asked = query_of(BudgetFilter, request.query_params)
        offset, size = offset_of(asked.cursor), asked.page_size
        found = budgets_listed(
            self.actor, asked.project, now=database_now(), offset=offset, limit=size + 1
        )
        following = None
        if len(found) > size:
            query = request.query_params.dict() | {"cursor": str(offset + size)}
            following = request.build_absolute_uri(f"{request.path}?{urlencode(query)}")
        results = [budget_json(each) for each in found[:size]]
        return Response({"next": following, "previous": None, "results": results})
