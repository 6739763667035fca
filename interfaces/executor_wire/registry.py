"""REST: executors and their nodes, the leases of an executor, and the reservations of nodes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.executor_wire import registry_shapes as shapes
from interfaces.executor_wire.kinds import EXECUTOR, NODE
from interfaces.executor_wire.registry_render import lease_json, reservation_json
from interfaces.http.paging import RowCursor
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.requests.queries import PageQuery, Text, query_of
from interfaces.rest.resource_views import (
    ResourceAct,
    ResourceList,
    ResourceOne,
    ResourceView,
)
from scheduler.selectors import executor_get, executor_leases, reservations_listed
from sessions_app.authorization import Action, Actor


class ExecutorsView(ResourceList):
    of = EXECUTOR


class ExecutorView(ResourceOne):
    of = EXECUTOR


class ExecutorCordonView(ResourceAct):
    of = EXECUTOR
    act = "cordon"


class ExecutorUncordonView(ResourceAct):
    of = EXECUTOR
    act = "uncordon"


class ExecutorDrainView(ResourceAct):
    of = EXECUTOR
    act = "drain"


class ExecutorTokenView(ResourceAct):
    of = EXECUTOR
    act = "token"


class NodesView(ResourceList):
    of = NODE


class NodeView(ResourceOne):
    of = NODE


class NodeQuarantineView(ResourceAct):
    of = NODE
    act = "quarantine"


class NodeReleaseView(ResourceAct):
    of = NODE
    act = "release"


VIEWS: Sequence[type[ResourceView]] = (
    ExecutorsView,
    ExecutorView,
    ExecutorCordonView,
    ExecutorUncordonView,
    ExecutorDrainView,
    ExecutorTokenView,
    NodesView,
    NodeView,
    NodeQuarantineView,
    NodeReleaseView,
)
"""The views of plain kinds. Each knows its address."""


class ReservationFilter(PageQuery):
    """The filters of `GET /reservations/`."""

    executor: Text | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the reservations that match the filters."""
        return rows if self.executor is None else rows.filter(executor__name=self.executor)


class ReservationsView(RestView):
    """`/reservations/`."""

    actions: ClassVar = {"GET": Action.EXECUTOR_READ}

    @extend_schema(
        operation_id="reservations_list",
        parameters=query_parameters(ReservationFilter),
        responses=shapes.ReservationPage,
    )
    def get(self, request: Request) -> Response:
        """List the nodes that are kept free for sessions that waited for too long, or for which
        others make room, oldest first."""
        wanted = query_of(ReservationFilter, request.query_params)
        rows = wanted.apply(self.actor, reservations_listed(self.actor))
        return RowCursor("id").answer(rows, request, reservation_json)


class ExecutorLeasesView(RestView):
    """`/executors/{name}/leases/`."""

    actions: ClassVar = {"GET": Action.EXECUTOR_READ}

    @extend_schema(
        operation_id="executor_leases",
        parameters=query_parameters(PageQuery),
        responses=shapes.ExecutorLeasePage,
    )
    def get(self, request: Request, name: str) -> Response:
        """List the leases of the executor, oldest first."""
        executor = executor_get(self.actor, name, self.required_action)
        query_of(PageQuery, request.query_params)
        return RowCursor("fencing_token").answer(executor_leases(executor), request, lease_json)
