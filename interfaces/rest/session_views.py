"""Sessions: create, list, show, update, cancel, preempt, retry."""

from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.http import StreamingHttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import sessions as operations
from interfaces.http.paging import RowCursor, SessionCursor
from interfaces.http.views import RestView, body_of, require_no_body
from interfaces.openapi.generator import query_parameters
from interfaces.render.session_render import (
    attempt_json,
    decision_json,
    graph_json,
    session_json,
    sessions_json,
    with_chains,
)
from interfaces.requests.bodies import (
    SessionCreate,
    SessionPreempt,
    SessionRetry,
    SessionUpdate,
)
from interfaces.requests.idempotency import IDEMPOTENCY_KEY, with_key
from interfaces.requests.queries import (
    AttemptsQuery,
    EventFilter,
    LogQuery,
    SessionFilter,
    events_wanted,
    query_of,
)
from interfaces.shapes import session_shapes
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import NotFound
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Session
from sessions_app.selectors.peers import chains_attempts
from sessions_app.selectors.session_pages import sessions_page
from sessions_app.selectors.sessions import (
    attempts_get,
    decision_get,
    require_project,
    session_events,
    session_get,
)
from sessions_app.services.sessions.logs import log_read, log_tail_offset


def linked(request: Request, *rendered: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rendered sessions with the address of each one's chain."""
    sessions = request.build_absolute_uri(reverse("api-sessions"))
    return [{**each, "chain_url": f"{sessions}{each['id']}/attempts/"} for each in rendered]


def _response(request: Request, session: Session, actor: Actor) -> Response:
    (body,) = linked(request, session_json(session, actor))
    return Response(body)


class SessionsView(RestView):
    """`/sessions/`."""

    actions: ClassVar = {"GET": Action.SESSION_LIST, "POST": Action.SESSION_CREATE}
    takes_key = True

    @extend_schema(
        operation_id="sessions_list",
        parameters=query_parameters(SessionFilter),
        responses=session_shapes.SessionPage,
    )
    def get(self, request: Request) -> Response:
        """List sessions, newest first."""
        wanted = query_of(SessionFilter, request.query_params)
        paginator = SessionCursor(wanted.ordering)
        page = paginator.read(partial(sessions_page, self.actor, wanted.wanted()), request)
        if not page:
            require_project(self.actor, wanted.project)
        rendered = sessions_json(page)
        if wanted.expand:
            rendered = with_chains(page, rendered)
        return paginator.get_paginated_response(linked(request, *rendered))

    @extend_schema(
        operation_id="sessions_create",
        parameters=[IDEMPOTENCY_KEY],
        request=SessionCreate,
        responses={201: session_shapes.SubmittedSession, 200: session_shapes.SubmittedSession},
    )
    def post(self, request: Request) -> Response:
        """Submit a session. If the `creation_id` exists and the body is equal, return that session
        (200)."""
        made = operations.create(self.actor, with_key(request, body_of(request)))
        session = session_get(self.actor, made.session_id)
        headers = {"Location": request.build_absolute_uri(f"{made.session_id}/")}
        status = 201 if made.created else 200
        (body,) = linked(request, session_json(session, self.actor))
        if made.warnings:
            body["warnings"] = list(made.warnings)
        return Response(body, status=status, headers=headers)


class SessionView(RestView):
    """`/sessions/{id}/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ, "PATCH": Action.SESSION_UPDATE}

    @extend_schema(operation_id="sessions_get", responses=session_shapes.Session)
    def get(self, request: Request, session_id: UUID) -> Response:
        """One session, its position in the chain, and its retry state."""
        session = session_get(self.actor, session_id, self.required_action)
        return _response(request, session, self.actor)

    @extend_schema(
        operation_id="sessions_update",
        request=SessionUpdate,
        responses=session_shapes.Session,
    )
    def patch(self, request: Request, session_id: UUID) -> Response:
        """Change the priority of a session that waits. The call can be repeated."""
        operations.update(self.actor, session_id, body_of(request))
        return _response(request, session_get(self.actor, session_id), self.actor)


class AttemptsView(RestView):
    """`/sessions/{id}/attempts/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(
        operation_id="sessions_attempts",
        parameters=query_parameters(AttemptsQuery),
        responses=session_shapes.Attempts,
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """The whole chain of a session, oldest attempt first.

        With `page_size` or `cursor`, one page of it.
        """
        wanted = query_of(AttemptsQuery, request.query_params)
        if wanted.paged:
            return Response(self._page(request, session_id, wanted))
        attempts = attempts_get(self.actor, session_id, self.required_action)
        return Response([attempt_json(attempt) for attempt in attempts])

    def _page(self, request: Request, session_id: UUID, wanted: AttemptsQuery) -> dict[str, Any]:
        session = session_get(self.actor, session_id, self.required_action)
        order, size = RowCursor("retry_count"), wanted.size
        (found,) = chains_attempts(self.actor, [session], order.number(wanted.cursor), size + 1)
        page, following = found[:size], None
        if len(found) > size:
            query = urlencode({"cursor": order.cursors(page)[-1], "page_size": size})
            following = request.build_absolute_uri(f"{request.path}?{query}")
        results = [attempt_json(attempt) for attempt in page]
        return {"next": following, "previous": None, "results": results}


class RetryDecisionView(RestView):
    """`/sessions/{id}/retry-decision/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(operation_id="sessions_retry_decision", responses=session_shapes.Decision)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Why a session was retried or not: the stored trace, as data and in sentences."""
        session = session_get(self.actor, session_id, self.required_action)
        return Response(decision_json(session, decision_get(session)))


class GraphView(RestView):
    """`/sessions/{id}/graph/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(operation_id="sessions_graph", responses=session_shapes.DependencyGraph)
    def get(self, request: Request, session_id: UUID) -> Response:
        """The chains that a session waits for, and those that wait for it, also through others."""
        session = session_get(self.actor, session_id, self.required_action)
        return Response(graph_json(session))


class EventsView(RestView):
    """`/sessions/{id}/events/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(
        operation_id="sessions_events",
        parameters=[
            *query_parameters(EventFilter),
            OpenApiParameter("Last-Event-ID", int, OpenApiParameter.HEADER),
        ],
        responses={
            (200, "application/json"): session_shapes.EventPage,
            (200, "text/event-stream"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """The events of a session in order, from `Last-Event-ID` or the event `after` on."""
        session = session_get(self.actor, session_id, self.required_action)
        wanted = events_wanted(EventFilter, request)
        events = session_events(session).filter(pk__gt=wanted.after)
        rows = list(events[: wanted.page_size + 1])
        following = None
        if len(rows) > wanted.page_size:
            rows.pop()
            query = f"?after={rows[-1].pk}&page_size={wanted.page_size}"
            following = request.build_absolute_uri(request.path + query)
        results = [event_json(row) for row in rows]
        return Response({"next": following, "previous": None, "results": results})


class PlainTextRenderer(BaseRenderer):
    """Lets a client ask for `text/plain`. The view streams the bytes itself."""

    media_type = "text/plain"
    format = "txt"
    charset = None

    def render(self, data: object, *_args: object, **_kwargs: object) -> bytes:
        """Render an error, which is always JSON."""
        return JSONRenderer().render(data)


class LogsView(RestView):
    """`/sessions/{id}/logs/`. Behind the ASGI front, the front sends the log and follows it."""

    actions: ClassVar = {"GET": Action.SESSION_READ}
    renderer_classes = [PlainTextRenderer, JSONRenderer]

    @extend_schema(
        operation_id="sessions_logs",
        parameters=query_parameters(LogQuery),
        responses={
            (200, "text/plain"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """The output of a session. It is kept after its pod or process is gone."""
        session = session_get(self.actor, session_id, self.required_action)
        if session.archived_chain is not None:
            raise NotFound("the log of this session was deleted when it was archived")
        wanted = query_of(LogQuery, request.query_params)
        start = log_start(session.pk, wanted)
        # The front sends a HEAD and streams the body itself, so that a slow reader holds no thread
        # here.
        body = () if request.method == "HEAD" else log_read(session.pk, start)
        response = StreamingHttpResponse(body, content_type="text/plain; charset=utf-8")
        response["X-Reprise-Log-Offset"] = str(start)
        response["X-Content-Type-Options"] = "nosniff"
        return response


def log_start(session_id: UUID, wanted: LogQuery) -> int:
    """Return the byte from which a log is asked for."""
    if wanted.tail is not None:
        return log_tail_offset(session_id, wanted.tail)
    return wanted.offset or 0


class CancelView(RestView):
    """`/sessions/{id}/cancel/`."""

    actions: ClassVar = {"POST": Action.SESSION_CANCEL}

    @extend_schema(operation_id="sessions_cancel", request=None, responses=session_shapes.Session)
    def post(self, request: Request, session_id: UUID) -> Response:
        """Cancel the whole chain: the live attempt and a waiting retry. The call can be
        repeated."""
        require_no_body(request)
        operations.cancel(self.actor, session_id)
        return _response(request, session_get(self.actor, session_id), self.actor)


class GiveUpView(RestView):
    """`/sessions/{id}/give-up/`."""

    actions: ClassVar = {"POST": Action.SESSION_GIVE_UP}

    @extend_schema(operation_id="sessions_give_up", request=None, responses=session_shapes.Session)
    def post(self, request: Request, session_id: UUID) -> Response:
        """End a parked chain as exhausted. The call can be repeated."""
        require_no_body(request)
        operations.give_up(self.actor, session_id)
        return _response(request, session_get(self.actor, session_id), self.actor)


class PreemptView(RestView):
    """`/sessions/{id}/preempt/`."""

    actions: ClassVar = {"POST": Action.SESSION_PREEMPT}

    @extend_schema(
        operation_id="sessions_preempt",
        request=SessionPreempt,
        responses={200: session_shapes.Session},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Preempt a run: stop it, and retry it as its policies say. It is not counted as a failure
        if preemptions have their own budget. The call can be repeated."""
        operations.preempt(self.actor, session_id, body_of(request))
        return _response(request, session_get(self.actor, session_id), self.actor)


class RetryView(RestView):
    """`/sessions/{id}/retry/`."""

    actions: ClassVar = {"POST": Action.SESSION_RETRY}

    @extend_schema(
        operation_id="sessions_retry",
        request=SessionRetry,
        responses={201: session_shapes.RetriedSession, 200: session_shapes.RetriedSession},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Retry a session by hand, at once. No budget is charged. The answer is the new attempt.

        It gets the resources of the attempt before; given resources replace them. A dry run answers
        with the session as it is (200). `secrets_dropped` names the secrets that the new attempt
        does not get.
        """
        made = operations.retry(self.actor, session_id, body_of(request))
        shown = session_get(self.actor, made.child_id or session_id)
        (body,) = linked(request, session_json(shown, self.actor))
        told = {"downstream": made.downstream, "secrets_dropped": made.secrets_dropped}
        told["warnings"] = made.warnings
        body |= {name: value for name, value in told.items() if value}
        return self.created(body, f"../../{shown.pk}/") if made.child_id else Response(body)
