"""Queues over REST."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.http.views import RestView, body_of, require_no_body
from sessions_app.api.kinds import queues as operations
from sessions_app.api.kinds.queues import QueueCreate, QueueFields, QueueName, QueuePut
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.policy_render import queue_json
from sessions_app.api.requests.bodies import CordonBody
from sessions_app.api.requests.filters import QueueFilter
from sessions_app.api.requests.queries import query_of
from sessions_app.api.shapes import policy_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.models import Queue
from sessions_app.selectors.policies import queues_visible
from sessions_app.services.resources.queues import queue_version


class QueuesView(RestView):
    """`/queues/`."""

    actions: ClassVar = {"GET": Action.QUEUE_LIST, "POST": Action.QUEUE_WRITE}

    @extend_schema(
        operation_id="queues_list",
        parameters=query_parameters(QueueFilter),
        responses=shapes.QueuePage,
    )
    def get(self, request: Request) -> Response:
        """List the queues of the projects that you may see, oldest first."""
        wanted = query_of(QueueFilter, request.query_params)
        rows = wanted.apply(self.actor, queues_visible(self.actor))
        return RowCursor("id").answer(rows, request, queue_json)

    @extend_schema(operation_id="queues_create", request=QueueCreate, responses={201: shapes.Queue})
    def post(self, request: Request) -> Response:
        """Create a queue."""
        queue = operations.create(self.actor, body_of(request))
        location = request.build_absolute_uri(f"{queue.project.address}/{queue.name}/")
        return _response(queue, status=201, Location=location)


class QueueView(RestView):
    """`/queues/{domain}/{project}/{queue}/`."""

    actions: ClassVar = {
        "GET": Action.QUEUE_READ,
        "PUT": Action.QUEUE_WRITE,
        "PATCH": Action.QUEUE_WRITE,
        "DELETE": Action.QUEUE_WRITE,
    }

    @extend_schema(operation_id="queue_read", responses=shapes.Queue)
    def get(self, request: Request, **names: str) -> Response:
        """One queue."""
        return _response(
            operations.queue_found(self.actor, QueueName(**names), self.required_action)
        )

    @extend_schema(
        operation_id="queue_apply",
        parameters=[IF_MATCH],
        request=QueuePut,
        responses={200: shapes.Queue, 201: shapes.Queue},
    )
    def put(self, request: Request, **names: str) -> Response:
        """Create a queue, or replace its changeable fields. Its cordon stays."""
        name, expected = QueueName(**names), expected_of(request)
        queue, made = operations.put(self.actor, name, body_of(request), expected)
        return _response(queue, status=201 if made else 200)

    @extend_schema(
        operation_id="queue_change",
        parameters=[IF_MATCH],
        request=QueueFields,
        responses=shapes.Queue,
    )
    def patch(self, request: Request, **names: str) -> Response:
        """Change the given fields."""
        name, expected = QueueName(**names), expected_of(request)
        return _response(operations.change(self.actor, name, body_of(request), expected))

    @extend_schema(operation_id="queue_delete", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Delete a queue that has no recorded sessions."""
        operations.delete(self.actor, QueueName(**names), expected_of(request))
        return Response(status=204)


class CordonView(RestView):
    """`/queues/{domain}/{project}/{queue}/cordon/`."""

    actions: ClassVar = {"POST": Action.QUEUE_WRITE}

    @extend_schema(operation_id="queue_cordon", request=CordonBody, responses={200: shapes.Queue})
    def post(self, request: Request, **names: str) -> Response:
        """Cordon the queue: it accepts sessions, but none of them is started."""
        return _response(operations.cordon(self.actor, QueueName(**names), body_of(request)))


class UncordonView(RestView):
    """`/queues/{domain}/{project}/{queue}/uncordon/`."""

    actions: ClassVar = {"POST": Action.QUEUE_WRITE}

    @extend_schema(operation_id="queue_uncordon", request=None, responses={200: shapes.Queue})
    def post(self, request: Request, **names: str) -> Response:
        """Uncordon the queue. A queue that is not cordoned does not change."""
        require_no_body(request)
        return _response(operations.uncordon(self.actor, QueueName(**names)))


def _response(queue: Queue, status: int = 200, **headers: str) -> Response:
    headers |= etag(queue_version(queue))
    return Response(queue_json(queue), status=status, headers=headers)
