"""Sessions: create, list, look, cancel, retry."""

from functools import partial
from typing import ClassVar
from uuid import UUID

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import responses
from sessions_app.api.calls import sessions as calls
from sessions_app.api.filters import EventFilter, LogQuery, SessionFilter, events_wanted, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import SessionCursor
from sessions_app.api.render import (
    attempt_json,
    decision_json,
    event_json,
    session_json,
    sessions_json,
)
from sessions_app.api.requests import SessionCreate, SessionPreempt, SessionRetry
from sessions_app.api.views import RestView, body_of, require_no_body
from sessions_app.authorization import Action
from sessions_app.errors import NotFound
from sessions_app.selectors import (
    attempts_get,
    decision_get,
    session_events,
    session_get,
)
from sessions_app.services.logs import log_read, log_tail_offset
from sessions_app.session_pages import sessions_page


class SessionsView(RestView):
    """`/sessions/`."""

    actions: ClassVar = {"GET": Action.SESSION_LIST, "POST": Action.SESSION_CREATE}

    @extend_schema(
        operation_id="sessions_list",
        parameters=query_parameters(SessionFilter),
        responses=responses.SessionPage,
    )
    def get(self, request: Request) -> Response:
        """List sessions, newest first."""
        wanted = query_of(SessionFilter, request.query_params)
        paginator = SessionCursor(wanted.ordering)
        page = paginator.read(partial(sessions_page, self.actor, wanted.wanted()), request)
        return paginator.get_paginated_response(sessions_json(page))

    @extend_schema(
        operation_id="sessions_create",
        request=SessionCreate,
        responses={201: responses.Session, 200: responses.Session},
    )
    def post(self, request: Request) -> Response:
        """Submit a session; the same `creation_id` with the same body finds it again (200)."""
        made = calls.create(self.actor, body_of(request))
        session = session_get(self.actor, made.session_id)
        headers = {"Location": request.build_absolute_uri(f"{made.session_id}/")}
        status = 201 if made.created else 200
        return Response(session_json(session), status=status, headers=headers)


class SessionView(RestView):
    """`/sessions/{id}/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(operation_id="sessions_get", responses=responses.Session)
    def get(self, request: Request, session_id: UUID) -> Response:  # noqa: ARG002
        """One session, its place in the chain, and what comes next."""
        return Response(session_json(session_get(self.actor, session_id, self.required_action)))


class AttemptsView(RestView):
    """`/sessions/{id}/attempts/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(
        operation_id="sessions_attempts",
        responses={(200, "application/json"): responses.attempts_schema()},
    )
    def get(self, request: Request, session_id: UUID) -> Response:  # noqa: ARG002
        """The whole chain of any of its members, oldest first."""
        attempts = attempts_get(self.actor, session_id, self.required_action)
        return Response([attempt_json(attempt) for attempt in attempts])


class RetryDecisionView(RestView):
    """`/sessions/{id}/retry-decision/`."""

    actions: ClassVar = {"GET": Action.SESSION_READ}

    @extend_schema(operation_id="sessions_retry_decision", responses=responses.Decision)
    def get(self, request: Request, session_id: UUID) -> Response:  # noqa: ARG002
        """Why a session was retried or not: the stored trace, in data and in words."""
        session = session_get(self.actor, session_id, self.required_action)
        return Response(decision_json(session, decision_get(session)))


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
            (200, "application/json"): responses.EventPage,
            (200, "text/event-stream"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """The log of a session in order, after `Last-Event-ID` or the event `after`."""
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
    """Lets a client ask for `text/plain`; the view streams the bytes itself."""

    media_type = "text/plain"
    format = "txt"
    charset = None

    def render(self, data: object, *_args: object, **_kwargs: object) -> bytes:
        """Errors only: they are JSON whatever was asked for."""
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
        """What the session wrote; kept after its pod or process is gone."""
        session = session_get(self.actor, session_id, self.required_action)
        if session.archived_chain is not None:
            raise NotFound("the log of this session was deleted when it was archived")
        wanted = query_of(LogQuery, request.query_params)
        start = log_start(session.pk, wanted)
        # The front asks with a HEAD and sends the body itself: a slow reader holds no thread there.
        body = () if request.method == "HEAD" else log_read(session.pk, start)
        response = StreamingHttpResponse(body, content_type="text/plain; charset=utf-8")
        response["X-Reprise-Log-Offset"] = str(start)
        response["X-Content-Type-Options"] = "nosniff"
        return response


def log_start(session_id: UUID, wanted: LogQuery) -> int:
    """The byte from which a log is wanted."""
    if wanted.tail is not None:
        return log_tail_offset(session_id, wanted.tail)
    return wanted.offset or 0


class CancelView(RestView):
    """`/sessions/{id}/cancel/`."""

    actions: ClassVar = {"POST": Action.SESSION_CANCEL}

    @extend_schema(operation_id="sessions_cancel", request=None, responses=responses.Session)
    def post(self, request: Request, session_id: UUID) -> Response:
        """Cancel the whole chain: the live attempt and a waiting retry. Repeating it is fine."""
        require_no_body(request)
        calls.cancel(self.actor, session_id)
        return Response(session_json(session_get(self.actor, session_id)))


class PreemptView(RestView):
    """`/sessions/{id}/preempt/`."""

    actions: ClassVar = {"POST": Action.SESSION_PREEMPT}

    @extend_schema(
        operation_id="sessions_preempt",
        request=SessionPreempt,
        responses={200: responses.Session},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Take a run off its executor, to be retried as its policies say; not counted as a failure
        where preemptions have a budget of their own. Repeating it is fine.
        """
        calls.preempt(self.actor, session_id, body_of(request))
        return Response(session_json(session_get(self.actor, session_id)))


class RetryView(RestView):
    """`/sessions/{id}/retry/`."""

    actions: ClassVar = {"POST": Action.SESSION_RETRY}

    @extend_schema(
        operation_id="sessions_retry", request=SessionRetry, responses={201: responses.Session}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Retry by hand, at once, on nobody's budget; the answer is the new attempt.

        It gets the resources of the attempt before, with those that are given in their place.
        """
        child_id = calls.retry(self.actor, session_id, body_of(request))
        child = session_json(session_get(self.actor, child_id))
        return self.created(child, f"../../{child_id}/")
