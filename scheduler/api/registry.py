"""The registry of executors over REST: who is there, made, changed, closed and deleted."""

from typing import Annotated, Any, ClassVar

from drf_spectacular.utils import extend_schema
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from rest_framework.request import Request
from rest_framework.response import Response

from retry.rule_fields import Label
from scheduler.api import registry_responses as shapes
from scheduler.api.registry_render import executor_json, lease_json, node_json
from scheduler.models import Executor
from scheduler.selectors import executor_get, executor_leases, executors_listed, projects_named
from scheduler.services.drain import executor_drain
from scheduler.services.registry import (
    LONGEST,
    executor_cordon,
    executor_create,
    executor_delete,
    executor_save,
    executor_token_renew,
    executor_uncordon,
)
from scheduler.services.silence import Health, health_condition
from sessions_app.api.filters import PageQuery, Text, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.requests import MAX_REASON, CordonBody
from sessions_app.api.views import RestView, body_of, require_no_body
from sessions_app.authorization import Action, authorize
from sessions_app.locks import database_now
from sessions_app.models import Project

MAX_PROJECTS = 1_000


class ExecutorFields(BaseModel):
    """What can be changed of an executor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    projects: Annotated[
        list[Annotated[StrictStr, Field(max_length=127)]], Field(max_length=MAX_PROJECTS)
    ] = []
    """The only ones it serves, as `domain/name`; none: all."""
    unconfirmed_after: (
        Annotated[StrictFloat | StrictInt, Field(ge=0, le=LONGEST), AfterValidator(float)] | None
    ) = None
    """Seconds after which a lost run counts as ended though nobody confirmed it; null: the server's
    setting, 0: never."""

    def served(self) -> list[Project] | None:
        """The projects, if they were sent; raises `InvalidInput` if one is not there."""
        return projects_named(self.projects) if "projects" in self.model_fields_set else None


class ExecutorCreate(ExecutorFields):
    """The body of `POST /executors/`."""

    name: Label


class ExecutorFilter(PageQuery):
    """The filters of `GET /executors/`."""

    cordoned: bool | None = None
    health: Annotated[Health, BeforeValidator(str.lower)] | None = None
    driver: Text | None = None


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
        now = database_now()
        if wanted.cordoned is not None:
            rows = rows.filter(cordoned=wanted.cordoned)
        if wanted.driver is not None:
            rows = rows.filter(driver=wanted.driver)
        if wanted.health is not None:
            rows = rows.filter(health_condition(wanted.health, now))
        paginator = RowCursor("name")
        page = paginator.read(rows, request)
        return paginator.get_paginated_response([executor_json(each, now) for each in page])

    @extend_schema(
        operation_id="executors_create",
        request=ExecutorCreate,
        responses={201: shapes.ExecutorWithToken},
    )
    def post(self, request: Request) -> Response:
        """Make an executor; its token is told this once."""
        authorize(self.actor, self.required_action)
        asked = ExecutorCreate.model_validate(body_of(request))
        executor = Executor(name=asked.name, unconfirmed_after=asked.unconfirmed_after)
        projects = asked.served() or []
        token = executor_create(executor, projects=projects, by=self.actor.name)
        made = executor_json(executor_get(self.actor, asked.name), database_now())
        return self.created({**made, "token": token}, f"{asked.name}/")


class OneExecutorView(RestView):
    """A view of what is under `/executors/{name}/`."""

    def executor(self, name: str) -> Any:
        """The executor of the address, if the actor may do what they ask for."""
        return executor_get(self.actor, name, self.required_action)

    def answer(self, name: str) -> Response:
        """The executor as it is now."""
        return Response(executor_json(self.executor(name), database_now()))


class ExecutorView(OneExecutorView):
    """`/executors/{name}/`."""

    actions: ClassVar = {
        "GET": Action.EXECUTOR_READ,
        "PATCH": Action.EXECUTOR_WRITE,
        "DELETE": Action.EXECUTOR_WRITE,
    }

    @extend_schema(operation_id="executor_read", responses=shapes.ExecutorWithNodes)
    def get(self, request: Request, name: str) -> Response:  # noqa: ARG002
        """One executor with its nodes."""
        executor = self.executor(name)
        nodes = [node_json(node) for node in executor.nodes]
        return Response({**executor_json(executor, database_now()), "nodes": nodes})

    @extend_schema(
        operation_id="executor_change", request=ExecutorFields, responses=shapes.Executor
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change what is named."""
        executor = self.executor(name)
        asked = ExecutorFields.model_validate(body_of(request))
        fields = asked.model_fields_set & {"unconfirmed_after"}
        if fields:
            executor.unconfirmed_after = asked.unconfirmed_after
        executor_save(executor, by=self.actor.name, fields=fields, projects=asked.served())
        return self.answer(name)

    @extend_schema(operation_id="executor_delete", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:  # noqa: ARG002
        """Delete an executor that holds no leases, and its tokens."""
        executor_delete(self.executor(name), by=self.actor.name)
        return Response(status=204)


class ExecutorCordonView(OneExecutorView):
    """`/executors/{name}/cordon/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_cordon", request=CordonBody, responses={200: shapes.Executor}
    )
    def post(self, request: Request, name: str) -> Response:
        """Close the executor: it gets no new leases, what runs goes on."""
        executor = self.executor(name)
        reason = CordonBody.model_validate(body_of(request)).reason
        executor_cordon(executor, reason=reason, by=self.actor.name)
        return self.answer(name)


class ExecutorUncordonView(OneExecutorView):
    """`/executors/{name}/uncordon/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(operation_id="executor_uncordon", request=None, responses={200: shapes.Executor})
    def post(self, request: Request, name: str) -> Response:
        """Open the executor again; on an open one it does nothing."""
        executor = self.executor(name)
        require_no_body(request)
        executor_uncordon(executor, by=self.actor.name)
        return self.answer(name)


class DrainBody(BaseModel):
    """The body of `POST /executors/{name}/drain/`, which may be empty."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """Told as the reason of its cordon, and to whoever looks at a session that ran there."""
    force: StrictBool = False
    """End interactive and inference sessions, too, which no retry brings back."""


class ExecutorDrainView(OneExecutorView):
    """`/executors/{name}/drain/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_drain", request=DrainBody, responses={200: shapes.DrainedExecutor}
    )
    def post(self, request: Request, name: str) -> Response:
        """Close the executor and preempt what runs there, until it is uncordoned.

        The runs are being stopped when this answers; `lease_count` of the executor tells when they
        have gone. Repeating it is fine.
        """
        self.executor(name)
        asked = DrainBody.model_validate(body_of(request))
        done = executor_drain(name, by=self.actor.name, reason=asked.reason, force=asked.force)
        return Response({"name": name, **done._asdict()})


class ExecutorTokenView(OneExecutorView):
    """`/executors/{name}/token/`."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WRITE}

    @extend_schema(
        operation_id="executor_token", request=None, responses={201: shapes.ExecutorToken}
    )
    def post(self, request: Request, name: str) -> Response:
        """Make a new token, told this once, and revoke all others of this executor.

        An agent that runs with an older one is answered 401 from then on: give it the new one and
        start it again before its leases end.
        """
        executor = self.executor(name)
        require_no_body(request)
        token = executor_token_renew(executor, by=self.actor.name)
        return Response({"name": name, "token": token}, status=201)


class ExecutorLeasesView(OneExecutorView):
    """`/executors/{name}/leases/`."""

    actions: ClassVar = {"GET": Action.EXECUTOR_READ}

    @extend_schema(
        operation_id="executor_leases",
        parameters=query_parameters(PageQuery),
        responses=shapes.ExecutorLeasePage,
    )
    def get(self, request: Request, name: str) -> Response:
        """List what the executor holds, the oldest lease first."""
        executor = self.executor(name)
        query_of(PageQuery, request.query_params)
        paginator = RowCursor("fencing_token")
        page = paginator.read(executor_leases(executor), request)
        return paginator.get_paginated_response([lease_json(lease) for lease in page])
