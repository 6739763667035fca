"""REST: what operators have to know now, which the page and `reprise top` show."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.views import RestView
from interfaces.requests.queries import query_of
from interfaces.requests.strict import StrictModel
from reprise.operations import shapes
from reprise.operations.overview import operations, timetable, trends
from reprise.operations.render import operations_json, trends_json
from sessions_app.authorization import Action


class Nothing(StrictModel):
    """The query parameters of calls that take none."""


class OperationsView(RestView):
    """`/operations/`."""

    actions: ClassVar = {"GET": Action.OPERATIONS_READ}

    @extend_schema(operation_id="operations", responses=shapes.Operations)
    def get(self, request: Request) -> Response:
        """Return the present problems, the worst first, what each switch would hold, and the
        schedules that come next or are paused."""
        query_of(Nothing, request.query_params)
        return Response(operations_json(operations(self.actor), timetable(self.actor)))


class TrendsView(RestView):
    """`/operations/trends/`."""

    actions: ClassVar = {"GET": Action.OPERATIONS_READ}

    @extend_schema(operation_id="operations_trends", responses=shapes.OperationsTrends)
    def get(self, request: Request) -> Response:
        """Return how many sessions each of the last 24 hours saw submitted, ended and retried."""
        query_of(Nothing, request.query_params)
        return Response(trends_json(trends(self.actor)))
