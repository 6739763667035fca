"""Reports in GraphQL."""

from typing import Any

from interfaces.calls import reports as operations
from interfaces.graphql.connections import one
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.shapes import arguments_of, type_of
from interfaces.render.report_render import report_json
from interfaces.requests.reports import ReportQuery
from interfaces.shapes import report_shapes as shapes
from sessions_app.authorization import Action, authorize


class ReportQueries:
    """The root field of reports."""

    retry_report = one(
        type_of(shapes.RetryReport),
        "What the retries of a time were worth; see `GET /reports/retries/`.",
        **arguments_of(ReportQuery),
    )

    @staticmethod
    def resolve_retry_report(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        """Return what `GET /reports/retries/` returns."""
        actor = actor_of(info)
        authorize(actor, Action.REPORT_READ)
        wanted = read_arguments(ReportQuery, asked)
        return report_json(operations.retries(actor, wanted), wanted.project)
