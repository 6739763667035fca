"""Failures by their signatures over REST."""

from typing import ClassVar
from urllib.parse import urlencode

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import failures as operations
from interfaces.http.paging import offset_of
from interfaces.http.views import RestView, body_of
from interfaces.openapi.generator import query_parameters
from interfaces.render.failure_render import failure_json
from interfaces.requests.failures import FailureChanges, FailureFilter, FailureQuery
from interfaces.requests.queries import query_of
from interfaces.shapes import failure_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.locks import database_now
from sessions_app.selectors.failures import failures_listed
from sessions_app.selectors.sessions import projects_visible


class FailuresView(RestView):
    """`/failures/`."""

    actions: ClassVar = {"GET": Action.FAILURE_LIST}

    @extend_schema(
        operation_id="failures_list",
        parameters=query_parameters(FailureFilter),
        responses=shapes.FailurePage,
    )
    def get(self, request: Request) -> Response:
        """List the kinds of failures of a time, each with its figures. Most frequent first."""
        asked = query_of(FailureFilter, request.query_params)
        wanted, offset = asked.wanted(database_now()), offset_of(asked.cursor)
        projects = projects_visible(self.actor, asked.project)
        found = failures_listed(projects, wanted, offset=offset, limit=asked.page_size + 1)
        following = None
        if len(found) > asked.page_size:
            query = request.query_params.dict() | {"cursor": str(offset + asked.page_size)}
            following = request.build_absolute_uri(f"{request.path}?{urlencode(query)}")
        results = [failure_json(each) for each in found[: asked.page_size]]
        return Response({"next": following, "previous": None, "results": results})


class FailureView(RestView):
    """`/failures/{key}/`."""

    actions: ClassVar = {"GET": Action.FAILURE_READ, "PATCH": Action.FAILURE_WRITE}
    asks_when_writing: ClassVar = True

    @extend_schema(
        operation_id="failure_read",
        parameters=query_parameters(FailureQuery),
        responses=shapes.Failure,
    )
    def get(self, request: Request, key: str) -> Response:
        """One kind of failures of a project."""
        asked = query_of(FailureQuery, request.query_params)
        return Response(failure_json(operations.found(self.actor, key, asked)))

    @extend_schema(
        operation_id="failure_change",
        parameters=query_parameters(FailureQuery),
        request=FailureChanges,
        responses=shapes.Failure,
    )
    def patch(self, request: Request, key: str) -> Response:
        """Mute a kind of failures, or take that back."""
        asked = query_of(FailureQuery, request.query_params)
        return Response(failure_json(operations.change(self.actor, key, asked, body_of(request))))
