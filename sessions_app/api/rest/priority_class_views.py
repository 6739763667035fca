"""Priority classes over REST."""

from typing import ClassVar
from urllib.parse import quote

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.http.views import body_of
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.operations import priority_classes as operations
from sessions_app.api.operations.priority_classes import PriorityClassBody, PriorityClassChanges
from sessions_app.api.render.policy_render import priority_classes_json
from sessions_app.api.requests.queries import PageQuery, query_of
from sessions_app.api.rest.policy_views import DocumentView
from sessions_app.api.shapes import policy_shapes as shapes
from sessions_app.authorization import Action, Actor
from sessions_app.models import PriorityClass
from sessions_app.selectors.priority_classes import priority_class_get, priority_classes_listed
from sessions_app.services.resources.priority_classes import priority_class_version


class PriorityClassesView(DocumentView):
    """`/priority-classes/`."""

    actions: ClassVar = {"GET": Action.PRIORITY_CLASS_READ, "POST": Action.PRIORITY_CLASS_WRITE}

    @extend_schema(
        operation_id="priority_classes_list",
        parameters=query_parameters(PageQuery),
        responses=shapes.PriorityClassPage,
    )
    def get(self, request: Request) -> Response:
        """List the priority classes, lowest value first."""
        rows = priority_classes_listed(self.actor)
        query_of(PageQuery, request.query_params)
        cursor = RowCursor("value")
        page = cursor.read(rows, request)
        return cursor.get_paginated_response(priority_classes_json(self.actor, page))

    @extend_schema(
        operation_id="priority_classes_create",
        request=PriorityClassBody,
        responses={201: shapes.PriorityClass},
    )
    def post(self, request: Request) -> Response:
        """Create a priority class."""
        made = operations.create(self.actor, body_of(request))
        headers = {"Location": request.build_absolute_uri(f"{quote(made.name)}/")}
        return _response(self.actor, made, status=201, **headers)


class PriorityClassView(DocumentView):
    """`/priority-classes/{name}/`."""

    actions: ClassVar = {
        "GET": Action.PRIORITY_CLASS_READ,
        "PUT": Action.PRIORITY_CLASS_WRITE,
        "PATCH": Action.PRIORITY_CLASS_WRITE,
        "DELETE": Action.PRIORITY_CLASS_WRITE,
    }

    @extend_schema(operation_id="priority_class_read", responses=shapes.PriorityClass)
    def get(self, request: Request, name: str) -> Response:
        """One priority class."""
        return _response(self.actor, priority_class_get(self.actor, name))

    @extend_schema(
        operation_id="priority_class_apply",
        parameters=[IF_MATCH],
        request=PriorityClassBody,
        responses={200: shapes.PriorityClass, 201: shapes.PriorityClass},
    )
    def put(self, request: Request, name: str) -> Response:
        """Create or replace a priority class."""
        row, made = operations.put(self.actor, name, body_of(request), expected_of(request))
        return _response(self.actor, row, status=201 if made else 200)

    @extend_schema(
        operation_id="priority_class_change",
        parameters=[IF_MATCH],
        request=PriorityClassChanges,
        responses=shapes.PriorityClass,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change some fields. The name and the value stay, since sessions have them."""
        return _response(
            self.actor, operations.change(self.actor, name, body_of(request), expected_of(request))
        )

    @extend_schema(
        operation_id="priority_class_delete", parameters=[IF_MATCH], responses={204: None}
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a class that no session which waits or runs has. Ended ones then show no class."""
        operations.delete(self.actor, name, expected_of(request))
        return Response(status=204)


def _response(actor: Actor, row: PriorityClass, status: int = 200, **headers: str) -> Response:
    headers |= etag(priority_class_version(row))
    return Response(priority_classes_json(actor, [row])[0], status=status, headers=headers)
