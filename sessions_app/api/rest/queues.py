"""Queues over REST."""

from typing import Annotated, Any, ClassVar, Self

from drf_spectacular.utils import extend_schema
from pydantic import (
    AfterValidator,
    BaseModel,
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
from retry.rules import MAX_POLICIES
from sessions_app.api import policy_responses as shapes
from sessions_app.api.filters import PageQuery, Text, of_project, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.policy_render import queue_json
from sessions_app.api.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.requests import Amounts, CordonBody
from sessions_app.api.views import RestView, body_of, require_no_body
from sessions_app.authorization import Action
from sessions_app.errors import InvalidInput, NotFound
from sessions_app.models import Project, Queue
from sessions_app.policy_selectors import queues_visible
from sessions_app.selectors import project_get, project_resolve
from sessions_app.services.queues import queue_delete, queue_save, queue_version

MAX_LIMITS = 32


class QueueFields(BaseModel):
    """What can be changed of a queue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    priority_factor: Annotated[
        StrictFloat | StrictInt, Field(gt=0, le=1e9), AfterValidator(float)
    ] = 1.0
    """Lower is more important."""
    is_default: StrictBool | None = None
    """True makes it the project's default queue in place of the present one."""
    resource_limits: Annotated[Amounts, Field(max_length=MAX_LIMITS)] = {}
    """What its running sessions may hold together, by resource; `sessions` is how many."""
    retry_policies: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=63)]],
        Field(max_length=MAX_POLICIES),
    ] = []
    """In order; each within reach of the project."""

    def give(self, queue: Queue, *, only: bool = False) -> set[str]:
        """Write the fields into a queue, with `only` those that were sent; their names."""
        fields = {name for name in QueueFields.model_fields if name in self.model_fields_set}
        if not only:
            fields |= {"priority_factor", "resource_limits", "retry_policies"}
        if self.is_default is None:
            fields.discard("is_default")
        elif queue.is_default and not self.is_default:
            raise InvalidInput({"is_default": ["make another queue the default instead"]})
        for name in fields:
            setattr(queue, name, getattr(self, name))
        return fields


class QueueCreate(QueueFields):
    """The body of `POST /queues/`."""

    project: Annotated[StrictStr, Field(max_length=127)] | None = None
    """`domain/name`."""
    name: Label


class QueuePut(QueueFields):
    """The body of `PUT`; project and name, if sent, as in the address."""

    project: StrictStr | None = None
    name: StrictStr | None = None

    def placed(self, domain: str, project: str, queue: str) -> Self:
        """Itself, if it speaks of this queue."""
        for field, given, meant in (
            ("project", self.project, f"{domain}/{project}"),
            ("name", self.name, queue),
        ):
            if given not in {None, meant}:
                raise InvalidInput({field: [f"must be {meant!r}, as in the address"]})
        return self


class QueueFilter(PageQuery):
    """The filters of `GET /queues/`."""

    project: Text | None = None
    """`domain/name`."""
    cordoned: bool | None = None

    def conditions(self) -> dict[str, Any]:
        """What the queues have to be."""
        found: dict[str, Any] = {} if self.project is None else of_project(self.project)
        return found if self.cordoned is None else {**found, "cordoned": self.cordoned}


class QueuesView(RestView):
    """`/queues/`."""

    actions: ClassVar = {"GET": Action.QUEUE_LIST, "POST": Action.QUEUE_WRITE}

    @extend_schema(
        operation_id="queues_list",
        parameters=query_parameters(QueueFilter),
        responses=shapes.QueuePage,
    )
    def get(self, request: Request) -> Response:
        """List the queues of the projects that one may see, oldest first."""
        wanted = query_of(QueueFilter, request.query_params)
        paginator = RowCursor("id")
        page = paginator.read(queues_visible(self.actor).filter(**wanted.conditions()), request)
        return paginator.get_paginated_response([queue_json(queue) for queue in page])

    @extend_schema(operation_id="queues_create", request=QueueCreate, responses={201: shapes.Queue})
    def post(self, request: Request) -> Response:
        """Make a queue."""
        asked = QueueCreate.model_validate(body_of(request))
        project = project_resolve(self.actor, asked.project, self.required_action)
        queue = _create(asked, project, asked.name, self.actor.name)
        location = request.build_absolute_uri(f"{project.address}/{queue.name}/")
        return _told(queue, status=201, Location=location)


def _create(asked: QueueFields, project: Project, name: str, by: str) -> Queue:
    queue = Queue(project=project, name=name)
    asked.give(queue)
    queue_save(queue, by=by)
    return queue


class QueueView(RestView):
    """`/queues/{domain}/{project}/{queue}/`."""

    actions: ClassVar = {
        "GET": Action.QUEUE_READ,
        "PUT": Action.QUEUE_WRITE,
        "PATCH": Action.QUEUE_WRITE,
        "DELETE": Action.QUEUE_WRITE,
    }

    @extend_schema(operation_id="queue_read", responses=shapes.Queue)
    def get(self, request: Request, **names: str) -> Response:  # noqa: ARG002
        """One queue."""
        return _told(_queue(self, names))

    @extend_schema(
        operation_id="queue_apply",
        parameters=[IF_MATCH],
        request=QueuePut,
        responses={200: shapes.Queue, 201: shapes.Queue},
    )
    def put(self, request: Request, **names: str) -> Response:
        """Make a queue, or replace what can be changed of it; its cordon stays."""
        project = _project(self, names)
        asked = QueuePut.model_validate(body_of(request)).placed(**names)
        expected = expected_of(request)
        queue = Queue.objects.filter(project=project, name=names["queue"]).first()
        if queue is None:
            if expected is not None:
                expected.check(None)
            name = QueueCreate.model_validate({"name": names["queue"]}).name
            made = _create(asked, project, name, self.actor.name)
            return _told(made, status=201)
        queue.project = project
        queue_save(queue, by=self.actor.name, fields=asked.give(queue), expected=expected)
        return _told(_queue(self, names))

    @extend_schema(
        operation_id="queue_change",
        parameters=[IF_MATCH],
        request=QueueFields,
        responses=shapes.Queue,
    )
    def patch(self, request: Request, **names: str) -> Response:
        """Change what is named."""
        queue = _queue(self, names)
        asked = QueueFields.model_validate(body_of(request))
        fields = asked.give(queue, only=True)
        queue_save(queue, by=self.actor.name, fields=fields, expected=expected_of(request))
        return _told(_queue(self, names))

    @extend_schema(operation_id="queue_delete", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Delete a queue in which no session is recorded any more."""
        expected = expected_of(request)
        queue_delete(_queue(self, names), by=self.actor.name, expected=expected)
        return Response(status=204)


class CordonView(RestView):
    """`/queues/{domain}/{project}/{queue}/cordon/`."""

    actions: ClassVar = {"POST": Action.QUEUE_WRITE}

    @extend_schema(operation_id="queue_cordon", request=CordonBody, responses={200: shapes.Queue})
    def post(self, request: Request, **names: str) -> Response:
        """Close the queue: it takes sessions, but none of them gets an executor."""
        queue = _queue(self, names)
        reason = CordonBody.model_validate(body_of(request)).reason
        return _set_cordon(self, queue, cordoned=True, reason=reason)


class UncordonView(RestView):
    """`/queues/{domain}/{project}/{queue}/uncordon/`."""

    actions: ClassVar = {"POST": Action.QUEUE_WRITE}

    @extend_schema(operation_id="queue_uncordon", request=None, responses={200: shapes.Queue})
    def post(self, request: Request, **names: str) -> Response:
        """Open the queue again; on an open one it does nothing."""
        queue = _queue(self, names)
        require_no_body(request)
        return _set_cordon(self, queue, cordoned=False, reason="")


def _set_cordon(view: RestView, queue: Queue, *, cordoned: bool, reason: str) -> Response:
    queue.cordoned, queue.cordon_reason = cordoned, reason
    queue_save(queue, by=view.actor.name, fields=("cordoned", "cordon_reason"))
    return _told(queue)


def _told(queue: Queue, status: int = 200, **headers: str) -> Response:
    headers |= etag(queue_version(queue))
    return Response(queue_json(queue), status=status, headers=headers)


def _project(view: RestView, names: dict[str, str]) -> Project:
    return project_get(view.actor, names["domain"], names["project"], view.required_action)


def _queue(view: RestView, names: dict[str, str]) -> Queue:
    project = _project(view, names)
    queue = Queue.objects.filter(project=project, name=names["queue"]).first()
    if queue is None:
        raise NotFound(f"no queue {names['domain']}/{names['project']}/{names['queue']}")
    queue.project = project
    return queue
