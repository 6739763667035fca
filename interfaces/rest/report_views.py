"""Reports over REST."""

from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import reports as operations
from interfaces.http.json_renderer import FastJSONRenderer
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.report_render import report_csv, report_json
from interfaces.requests.queries import query_of
from interfaces.requests.reports import ReportQuery
from interfaces.shapes import report_shapes as shapes
from sessions_app.authorization import Action


class CSVRenderer(BaseRenderer):
    """Lets a client ask for `text/csv`. The view makes the text."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *_args: object, **_kwargs: object) -> bytes:
        """Return the text; an error is always JSON."""
        return data.encode() if isinstance(data, str) else JSONRenderer().render(data)


class RetryReportView(RestView):
    """`/reports/retries/`."""

    actions: ClassVar = {"GET": Action.REPORT_READ}
    renderer_classes = [FastJSONRenderer, CSVRenderer]

    @extend_schema(
        operation_id="reports_retries",
        parameters=query_parameters(ReportQuery),
        responses={
            (200, "application/json"): shapes.RetryReport,
            (200, "text/csv"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> Response:
        """What the retries of a time were worth, by cause, rule, queue and so on, or by day."""
        asked = query_of(ReportQuery, request.query_params)
        found = operations.retries(self.actor, asked)
        if isinstance(request.accepted_renderer, CSVRenderer):
            name = f"retries-by-{asked.by}.csv"
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(report_csv(found), headers=headers)
        return Response(report_json(found, asked.project))
