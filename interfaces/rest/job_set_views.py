"""Job sets: the sessions that a project submitted under one name, and their common stream."""

from typing import ClassVar
from urllib.parse import urlencode

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.paging import job_set_cursor, job_set_place
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.session_render import job_set_json
from interfaces.requests.queries import (
    JobSetEventFilter,
    JobSetFilter,
    events_wanted,
    query_of,
)
from interfaces.shapes import session_shapes
from sessions_app.authorization import Action
from sessions_app.eventlog.event_json import event_json
from sessions_app.eventlog.reading import job_set_events, job_sets
from sessions_app.selectors.sessions import job_set_project, projects_visible

PROJECT_HEADER = "X-Reprise-Project"
"""The header that tells the front which project's job set to stream."""


class JobSetsView(RestView):
    """`/job-sets/`."""

    actions: ClassVar = {"GET": Action.JOB_SET_LIST}

    @extend_schema(
        operation_id="job_sets_list",
        parameters=query_parameters(JobSetFilter),
        responses=session_shapes.JobSetPage,
    )
    def get(self, request: Request) -> Response:
        """List the job sets in the event log, by project and name."""
        wanted = query_of(JobSetFilter, request.query_params)
        projects = projects_visible(self.actor, wanted.project)
        found = job_sets(projects, job_set_place(wanted.cursor), wanted.page_size + 1)
        page = found[: wanted.page_size]
        following = None
        if len(found) > len(page):
            following = _next(request, cursor=job_set_cursor(page[-1]))
        results = [job_set_json(each) for each in page]
        return Response({"next": following, "previous": None, "results": results})


class JobSetEventsView(RestView):
    """`/job-sets/{name}/events/`. Behind the ASGI front, the front sends the stream."""

    actions: ClassVar = {"GET": Action.JOB_SET_READ}

    @extend_schema(
        operation_id="job_sets_events",
        parameters=[
            *query_parameters(JobSetEventFilter),
            OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER),
        ],
        responses={
            (200, "application/json"): session_shapes.EventPage,
            (200, "text/event-stream"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, name: str) -> Response:
        """The events of all sessions of a job set, from `Last-Event-ID` or the cursor `after`
        on."""
        wanted = events_wanted(JobSetEventFilter, request)
        project = job_set_project(self.actor, name, wanted.project)
        found = job_set_events(project.pk, name, wanted.after, wanted.page_size + 1)
        page = found[: wanted.page_size]
        more = len(found) > len(page)
        following = _next(request, after=str(page[-1].cursor)) if more else None
        body = {"next": following, "previous": None, "results": [event_json(e) for e in page]}
        return Response(body, headers={PROJECT_HEADER: project.address})


def _next(request: Request, **place: str) -> str:
    query = urlencode(request.query_params.dict() | place)
    return request.build_absolute_uri(f"{request.path}?{query}")
