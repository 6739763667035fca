"""Schedules over REST."""

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import RestView, body_of, require_no_body
from sessions_app.api.kinds import schedules as operations
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.schedule_render import (
    backfill_json,
    schedule_detail_json,
    schedule_json,
)
from sessions_app.api.requests.filters import ScheduleFilter
from sessions_app.api.requests.queries import query_of
from sessions_app.api.requests.schedules import (
    Backfill,
    ScheduleChanges,
    ScheduleCreate,
    SchedulePause,
    SchedulePut,
    Timing,
)
from sessions_app.api.shapes import schedule_shapes as shapes
from sessions_app.authorization import Action, authorize
from sessions_app.selectors.schedules import schedule_get, schedules_visible


def saved_json(saved: operations.Saved) -> dict[str, Any]:
    """Return a schedule with the warnings about its sessions, if there are any."""
    body = schedule_detail_json(saved.schedule)
    return {**body, "warnings": saved.warnings} if saved.warnings else body


class SchedulesView(RestView):
    """`/schedules/`."""

    actions: ClassVar = {"GET": Action.SCHEDULE_LIST, "POST": Action.SCHEDULE_CREATE}

    @extend_schema(
        operation_id="schedules_list",
        parameters=query_parameters(ScheduleFilter),
        responses=shapes.SchedulePage,
    )
    def get(self, request: Request) -> Response:
        """List the schedules of the projects of which you are a member, oldest first."""
        wanted = query_of(ScheduleFilter, request.query_params)
        rows = wanted.apply(self.actor, schedules_visible(self.actor))
        return RowCursor("id").answer(rows, request, schedule_json)

    @extend_schema(
        operation_id="schedules_create",
        request=ScheduleCreate,
        responses={201: shapes.SavedSchedule},
    )
    def post(self, request: Request) -> Response:
        """Create a schedule. Its sessions are submitted as you."""
        made = operations.create(self.actor, body_of(request))
        return self.created(saved_json(made), f"{made.schedule.pk}/")


class PreviewView(RestView):
    """`/schedules/preview/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_PREVIEW}

    @extend_schema(operation_id="schedules_preview", request=Timing, responses=shapes.NextTimes)
    def post(self, request: Request) -> Response:
        """Return the next times that a schedule would have. Nothing is stored."""
        authorize(self.actor, self.required_action)
        return Response({"times": operations.preview(Timing.model_validate(body_of(request)))})


class ScheduleView(RestView):
    """`/schedules/{id}/`."""

    actions: ClassVar = {
        "GET": Action.SCHEDULE_READ,
        "PUT": Action.SCHEDULE_WRITE,
        "PATCH": Action.SCHEDULE_WRITE,
        "DELETE": Action.SCHEDULE_WRITE,
    }

    @extend_schema(operation_id="schedule_read", responses=shapes.ScheduleDetail)
    def get(self, request: Request, schedule_id: UUID) -> Response:
        """One schedule, with its next times and its latest chains."""
        found = schedule_get(self.actor, schedule_id, self.required_action)
        return Response(schedule_detail_json(found))

    @extend_schema(operation_id="schedule_put", request=SchedulePut, responses=shapes.SavedSchedule)
    def put(self, request: Request, schedule_id: UUID) -> Response:
        """Replace all fields that can change. You become its owner."""
        return Response(saved_json(operations.put(self.actor, schedule_id, body_of(request))))

    @extend_schema(
        operation_id="schedule_change", request=ScheduleChanges, responses=shapes.SavedSchedule
    )
    def patch(self, request: Request, schedule_id: UUID) -> Response:
        """Change the given fields. You become its owner."""
        return Response(saved_json(operations.change(self.actor, schedule_id, body_of(request))))

    @extend_schema(operation_id="schedule_delete", responses={204: None})
    def delete(self, request: Request, schedule_id: UUID) -> Response:
        """Delete a schedule. Its sessions stay."""
        operations.delete(self.actor, schedule_id)
        return Response(status=204)


class PauseView(RestView):
    """`/schedules/{id}/pause/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_WRITE}

    @extend_schema(
        operation_id="schedule_pause",
        request=SchedulePause,
        responses={200: shapes.ScheduleDetail},
    )
    def post(self, request: Request, schedule_id: UUID) -> Response:
        """Pause the schedule. Its running sessions go on."""
        found = operations.pause(self.actor, schedule_id, body_of(request))
        return Response(schedule_detail_json(found))


class ResumeView(RestView):
    """`/schedules/{id}/resume/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_WRITE}

    @extend_schema(
        operation_id="schedule_resume", request=None, responses={200: shapes.ScheduleDetail}
    )
    def post(self, request: Request, schedule_id: UUID) -> Response:
        """Resume a paused schedule with its next time. Times of the pause are not made up."""
        require_no_body(request)
        return Response(schedule_detail_json(operations.resume(self.actor, schedule_id)))


class TriggerView(RestView):
    """`/schedules/{id}/trigger/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_WRITE}

    @extend_schema(
        operation_id="schedule_trigger", request=None, responses={201: shapes.ScheduledSession}
    )
    def post(self, request: Request, schedule_id: UUID) -> Response:
        """Make one session now, as the schedule's owner, also while it is paused."""
        require_no_body(request)
        made = operations.trigger(self.actor, schedule_id)
        warnings = {"warnings": made.warnings} if made.warnings else {}
        address = f"/api/v2/sessions/{made.session_id}/"
        return self.created({"id": made.session_id, **warnings}, address)


class BackfillView(RestView):
    """`/schedules/{id}/backfill/`."""

    actions: ClassVar = {"POST": Action.SCHEDULE_WRITE}

    @extend_schema(operation_id="schedule_backfill", request=Backfill, responses=shapes.Backfilled)
    def post(self, request: Request, schedule_id: UUID) -> Response:
        """Make the sessions of past times, at most 1,000, or with `dry_run` only show the times."""
        body = body_of(request)
        made = operations.backfill(self.actor, schedule_id, body)
        return Response(backfill_json(made, dry_run=bool(body.get("dry_run"))))
