"""REST: list nodes, put them into quarantine, and release them."""

from typing import Annotated, Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from pydantic import BeforeValidator
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api import operations
from scheduler.api import registry_shapes as shapes
from scheduler.api.operations import QuarantineBody
from scheduler.api.registry_render import nodes_json
from scheduler.models import NodeState
from scheduler.selectors import node_get, nodes_by_failures
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import RestView, body_of, require_no_body
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.requests.queries import PageQuery, Text, query_of
from sessions_app.authorization import Action, Actor


class NodeFilter(PageQuery):
    """The filters of `GET /nodes/`."""

    executor: Text | None = None
    state: Annotated[NodeState, BeforeValidator(str.lower)] | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the nodes that match the filters."""
        if self.executor is not None:
            rows = rows.filter(executor__name=self.executor)
        return rows if self.state is None else rows.filter(self.state.condition)


class NodesView(RestView):
    """`/nodes/`."""

    actions: ClassVar = {"GET": Action.NODE_LIST}

    @extend_schema(
        operation_id="nodes_list",
        parameters=query_parameters(NodeFilter),
        responses=shapes.ClusterNodePage,
    )
    def get(self, request: Request) -> Response:
        """List the nodes of executors, with how attempts ended there, and which are suspect.

        Cluster admins get those first of whose attempts the largest part failed, others by address.
        """
        wanted = query_of(NodeFilter, request.query_params)
        cursor = RowCursor("place")
        page = cursor.read(wanted.apply(self.actor, nodes_by_failures(self.actor)), request)
        return cursor.get_paginated_response(nodes_json(self.actor, page))


class OneNodeView(RestView):
    """The base of the views below `/nodes/{executor}/{name}/`."""

    def answer(self, executor: str, name: str) -> Response:
        """Return a response with the node as it is now."""
        node = node_get(self.actor, executor, name, self.required_action)
        return Response(nodes_json(self.actor, [node])[0])


class NodeView(OneNodeView):
    """`/nodes/{executor}/{name}/`."""

    actions: ClassVar = {"GET": Action.NODE_READ}

    @extend_schema(operation_id="node_read", responses=shapes.ClusterNode)
    def get(self, request: Request, executor: str, name: str) -> Response:
        """One node."""
        return self.answer(executor, name)


class NodeQuarantineView(OneNodeView):
    """`/nodes/{executor}/{name}/quarantine/`."""

    actions: ClassVar = {"POST": Action.NODE_WRITE}

    @extend_schema(
        operation_id="node_quarantine",
        request=QuarantineBody,
        responses={200: shapes.ClusterNode},
    )
    def post(self, request: Request, executor: str, name: str) -> Response:
        """Put a node into quarantine: it gets no leases until it is released. What runs there goes
        on."""
        operations.quarantine(self.actor, executor, name, body_of(request))
        return self.answer(executor, name)


class NodeReleaseView(OneNodeView):
    """`/nodes/{executor}/{name}/release/`."""

    actions: ClassVar = {"POST": Action.NODE_WRITE}

    @extend_schema(operation_id="node_release", request=None, responses={200: shapes.ClusterNode})
    def post(self, request: Request, executor: str, name: str) -> Response:
        """End the quarantine and the suspicion of a node. What it did before counts no longer."""
        require_no_body(request)
        operations.release(self.actor, executor, name)
        return self.answer(executor, name)
