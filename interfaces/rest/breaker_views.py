"""Breakers over REST: the list, whose calls need no address, and the events of one."""

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.paging import RowCursor
from interfaces.http.views import RestView, body_of
from interfaces.kinds.breakers import BREAKER
from interfaces.openapi.generator import query_parameters
from interfaces.render.breaker_render import breaker_events_json
from interfaces.requests.queries import PageQuery, query_of
from interfaces.rest.resource_views import ResourceList
from interfaces.shapes import breaker_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.selectors.breakers import breaker_events, breaker_get


class BreakersView(ResourceList):
    of = BREAKER

    def post(self, request: Request) -> Response:
        """Open one. It may have been there, so the answer has no address of what is new."""
        return self.answer(self.call, self.call.run(self.actor, body_of(request)), 201)


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
