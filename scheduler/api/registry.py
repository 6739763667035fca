"""REST: list, create, change, cordon, drain and delete executors."""

from functools import partial
from typing import Annotated, Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from pydantic import BeforeValidator
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api import operations
from scheduler.api import registry_shapes as shapes
from scheduler.api.operations import DrainBody, ExecutorCreate, ExecutorFields
from scheduler.api.registry_render import executor_json, lease_json, node_json, reservation_json
from scheduler.selectors import (
    executor_get,
    executor_leases,
    executors_listed,
    reservations_listed,
)
from scheduler.services.silence import Health, health_condition
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import UNKEPT, RestView, body_of, require_no_body
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.requests.bodies import CordonBody
from sessions_app.api.requests.queries import PageQuery, Text, query_of
from sessions_app.authorization import Action, Actor
from sessions_app.locks import database_now


class ExecutorFilter(PageQuery):
    """The filters of `GET /executors/`."""

    cordoned: bool | None = None
    health: Annotated[Health, BeforeValidator(str.lower)] | None = None
    driver: Text | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the executors that match the filters."""
        if self.cordoned is not None:
            rows = rows.filter(cordoned=self.cordoned)
        if self.driver is not None:
            rows = rows.filter(driver=self.driver)
        if self.health is not None:
            rows = rows.filter(health_condition(self.health, database_now()))
        return rows


class ExecutorsView(RestView):
    """`/executors/`."""

    actions: ClassVar = {"GET": Action.EXECUTOR_READ, "POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executors_list",
        parameters=query_parameters(ExecutorFilter),
        responses=shapes.ExecutorPage,
    )
    def get(self, request: Request) -> Response:
        """List the executors by name, without their nodes."""
        rows = executors_listed(self.actor).defer("nodes")
        wanted = query_of(ExecutorFilter, request.query_params)
        render = partial(executor_json, now=database_now())
        return RowCursor("name").answer(wanted.apply(self.actor, rows), request, render)

    @extend_schema(
        operation_id="executors_create",
        request=ExecutorCreate,
        responses={201: shapes.ExecutorWithToken},
    )
    def post(self, request: Request) -> Response:
        """Create an executor. Its token is shown only once."""
        name, token = operations.create(self.actor, body_of(request))
        made = executor_json(executor_get(self.actor, name), database_now())
        return self.created({**made, "token": token}, f"{name}/")


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


class OneExecutorView(RestView):
    """The base of the views below `/executors/{name}/`."""

    def executor(self, name: str) -> Any:
        """Return the executor of the address. Raises an error if the action is forbidden."""
        return executor_get(self.actor, name, self.required_action)

    def answer(self, name: str) -> Response:
        """Return a response with the executor as it is now."""
        return Response(executor_json(self.executor(name), database_now()))


class ExecutorView(OneExecutorView):
    """`/executors/{name}/`."""

    actions: ClassVar = {
        "GET": Action.EXECUTOR_READ,
        "PATCH": Action.EXECUTOR_WRITE,
        "DELETE": Action.EXECUTOR_WRITE,
    }

    @extend_schema(operation_id="executor_read", responses=shapes.ExecutorWithNodes)
    def get(self, request: Request, name: str) -> Response:
        """One executor with its nodes and their reservations."""
        executor = self.executor(name)
        nodes = [node_json(node) for node in executor.nodes]
        kept = reservations_listed(self.actor).filter(executor=executor)
        reservations = [reservation_json(each) for each in kept]
        body = executor_json(executor, database_now())
        return Response({**body, "nodes": nodes, "reservations": reservations})

    @extend_schema(
        operation_id="executor_change", request=ExecutorFields, responses=shapes.Executor
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the given fields."""
        operations.change(self.actor, name, body_of(request))
        return self.answer(name)

    @extend_schema(operation_id="executor_delete", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete an executor without leases, and its tokens."""
        operations.delete(self.actor, name)
        return Response(status=204)


class ExecutorCordonView(OneExecutorView):
    """`/executors/{name}/cordon/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_cordon", request=CordonBody, responses={200: shapes.Executor}
    )
    def post(self, request: Request, name: str) -> Response:
        """Cordon the executor: it gets no new leases. Its running sessions continue."""
        operations.cordon(self.actor, name, body_of(request))
        return self.answer(name)


class ExecutorUncordonView(OneExecutorView):
    """`/executors/{name}/uncordon/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(operation_id="executor_uncordon", request=None, responses={200: shapes.Executor})
    def post(self, request: Request, name: str) -> Response:
        """Uncordon the executor. An executor that is not cordoned does not change."""
        require_no_body(request)
        operations.uncordon(self.actor, name)
        return self.answer(name)


class ExecutorDrainView(OneExecutorView):
    """`/executors/{name}/drain/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_drain", request=DrainBody, responses={200: shapes.DrainedExecutor}
    )
    def post(self, request: Request, name: str) -> Response:
        """Drain the executor: cordon it and preempt its sessions.

        When the call returns, the runs are being stopped. `lease_count` of the executor shows how
        many are left. The call can be repeated.
        """
        done = operations.drain(self.actor, name, body_of(request))
        return Response({"name": name, **done._asdict()})


class ExecutorTokenView(OneExecutorView):
    """`/executors/{name}/token/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_token", request=None, responses={201: shapes.ExecutorToken}
    )
    def post(self, request: Request, name: str) -> Response:
        """Create a new token, which is shown only once, and revoke all others of this executor.

        An agent with an older token gets 401 from then on. Give it the new token and restart it
        before its leases expire.
        """
        require_no_body(request)
        token = operations.token_renew(self.actor, name)
        return Response({"name": name, "token": token}, status=201, headers=UNKEPT)


class ExecutorLeasesView(OneExecutorView):
    """`/executors/{name}/leases/`."""

    actions: ClassVar = {"GET": Action.EXECUTOR_READ}

    @extend_schema(
        operation_id="executor_leases",
        parameters=query_parameters(PageQuery),
        responses=shapes.ExecutorLeasePage,
    )
    def get(self, request: Request, name: str) -> Response:
        """List the leases of the executor, oldest first."""
        executor = self.executor(name)
        query_of(PageQuery, request.query_params)
        return RowCursor("fencing_token").answer(executor_leases(executor), request, lease_json)
