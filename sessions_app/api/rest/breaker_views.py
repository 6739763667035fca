"""Breakers over REST."""

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import RestView, body_of, require_no_body
from sessions_app.api.kinds import breakers as operations
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.breaker_render import breaker_events_json, breakers_json
from sessions_app.api.requests.breakers import BreakerClose, BreakerFilter, BreakerOpen
from sessions_app.api.requests.queries import PageQuery, query_of
from sessions_app.api.shapes import breaker_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.selectors.breakers import breaker_events, breaker_get, breakers_listed


class BreakersView(RestView):
    """`/breakers/`."""

    actions: ClassVar = {"GET": Action.BREAKER_LIST, "POST": Action.BREAKER_WRITE}

    @extend_schema(
        operation_id="breakers_list",
        parameters=query_parameters(BreakerFilter),
        responses=shapes.BreakerPage,
    )
    def get(self, request: Request) -> Response:
        """List breakers, open and closed ones: those of projects, and the cluster's."""
        wanted = query_of(BreakerFilter, request.query_params)
        rows = wanted.apply(self.actor, breakers_listed(self.actor))
        cursor = RowCursor("-opened_at", unique=False)
        page = cursor.read(rows, request)
        return cursor.get_paginated_response(breakers_json(self.actor, page))

    @extend_schema(
        operation_id="breaker_open", request=BreakerOpen, responses={201: shapes.Breaker}
    )
    def post(self, request: Request) -> Response:
        """Open the breaker of a signature: retries of such failures wait until it closes."""
        found = operations.open_by_hand(self.actor, body_of(request))
        return Response(breakers_json(self.actor, [found])[0], status=201)


class BreakerView(RestView):
    """`/breakers/{breaker_id}/`."""

    actions: ClassVar = {"GET": Action.BREAKER_READ}

    @extend_schema(operation_id="breaker_read", responses=shapes.Breaker)
    def get(self, request: Request, breaker_id: UUID) -> Response:  # DRF passes it
        """One breaker."""
        found = breaker_get(self.actor, breaker_id)
        return Response(breakers_json(self.actor, [found])[0])


class BreakerEventsView(RestView):
    """`/breakers/{breaker_id}/events/`."""

    actions: ClassVar = {"GET": Action.BREAKER_READ}

    @extend_schema(
        operation_id="breaker_events",
        parameters=query_parameters(PageQuery),
        responses=shapes.BreakerEventPage,
    )
    def get(self, request: Request, breaker_id: UUID) -> Response:
        """When a breaker opened and closed, and why: the newest first."""
        query_of(PageQuery, request.query_params)
        found = breaker_get(self.actor, breaker_id)
        cursor = RowCursor("-seq")
        page = cursor.read(breaker_events(found), request)
        return cursor.get_paginated_response(breaker_events_json(self.actor, found, page))


class BreakerCloseView(RestView):
    """`/breakers/{breaker_id}/close/`."""

    actions: ClassVar = {"POST": Action.BREAKER_WRITE}

    @extend_schema(
        operation_id="breaker_close", request=BreakerClose, responses={200: shapes.Breaker}
    )
    def post(self, request: Request, breaker_id: UUID) -> Response:
        """Close a breaker: what it held goes on, at the pace of the storm limits."""
        found = operations.close(self.actor, breaker_id, body_of(request))
        return Response(breakers_json(self.actor, [found])[0])


class BreakerMuteView(RestView):
    """`/breakers/{breaker_id}/mute/`."""

    actions: ClassVar = {"POST": Action.BREAKER_WRITE}

    @extend_schema(operation_id="breaker_mute", request=None, responses={200: shapes.Breaker})
    def post(self, request: Request, breaker_id: UUID) -> Response:
        """Mute a breaker: it does not open by itself any more. One that is open stays open."""
        require_no_body(request)
        found = operations.mute(self.actor, breaker_id, muted=True)
        return Response(breakers_json(self.actor, [found])[0])


class BreakerUnmuteView(RestView):
    """`/breakers/{breaker_id}/unmute/`."""

    actions: ClassVar = {"POST": Action.BREAKER_WRITE}

    @extend_schema(operation_id="breaker_unmute", request=None, responses={200: shapes.Breaker})
    def post(self, request: Request, breaker_id: UUID) -> Response:
        """Take back the muting of a breaker: it opens by itself again."""
        require_no_body(request)
        found = operations.mute(self.actor, breaker_id, muted=False)
        return Response(breakers_json(self.actor, [found])[0])
