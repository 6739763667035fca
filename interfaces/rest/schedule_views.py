"""The times of schedules that do not exist yet, over REST."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.views import RestView, body_of
from interfaces.kinds import schedules as operations
from interfaces.requests.schedules import Timing
from interfaces.shapes import schedule_shapes as shapes
from sessions_app.authorization import Action, authorize


class PreviewView(RestView):
    """`/schedules/preview/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_PREVIEW}

    @extend_schema(operation_id="schedules_preview", request=Timing, responses=shapes.NextTimes)
    def post(self, request: Request) -> Response:
        """Return the next times that a schedule would have. Nothing is stored."""
        authorize(self.actor, self.required_action)
        return Response({"times": operations.preview(Timing.model_validate(body_of(request)))})
