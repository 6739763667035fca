"""Submitting many sessions in one call. Each item has an outcome, in the order of the request."""

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import bulk as operations
from interfaces.calls.bulk import Refusal, SessionsBulkCreate
from interfaces.http.problems import problem_of
from interfaces.http.views import RestView, body_of
from interfaces.shapes import bulk_shapes
from sessions_app.authorization import Action
from sessions_app.services.sessions.submit import Submitted


class SessionsBulkView(RestView):
    """`/sessions/bulk/`."""

    actions: ClassVar = {"POST": Action.SESSION_CREATE}
    body_limit = settings.BULK_BODY_LIMIT_BYTES

    @extend_schema(
        operation_id="sessions_bulk_create",
        request=SessionsBulkCreate,
        responses=bulk_shapes.BulkOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 sessions. A refused session does not stop the others."""
        outcomes = operations.sessions_create(self.actor, body_of(request))
        return Response({"results": [_outcome_json(outcome) for outcome in outcomes]})


def _outcome_json(outcome: Submitted | Refusal) -> dict[str, Any]:
    if isinstance(outcome, Submitted):
        name = "created" if outcome.created else "exists"
        result = {"outcome": name, "session_id": outcome.session_id, "problem": None}
        return {**result, "warnings": list(outcome.warnings)}
    problem = problem_of(outcome)
    return {"outcome": "refused", "session_id": None, "problem": problem, "warnings": []}
