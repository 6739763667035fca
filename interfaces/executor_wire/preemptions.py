"""REST: list the sessions that made room for others."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.executor_wire import registry_shapes as shapes
from interfaces.executor_wire.registry_render import preemptions_json
from interfaces.http.paging import RowCursor
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.requests.queries import PageQuery, Text, query_of
from scheduler.selectors import preemptions_listed
from sessions_app.authorization import Action, Actor


class PreemptionFilter(PageQuery):
    """The filters of `GET /preemptions/`."""

    executor: Text | None = None
    session: UUID | None = None
    """As the victim or as the one for which room was made."""

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the preemptions that match the filters."""
        if self.executor is not None:
            rows = rows.filter(executor_name=self.executor)
        if self.session is not None:
            rows = rows.filter(Q(seen_victim=self.session) | Q(seen_taker=self.session))
        return rows


class PreemptionsView(RestView):
    """`/preemptions/`."""

    actions: ClassVar = {"GET": Action.PREEMPTION_LIST}

    @extend_schema(
        operation_id="preemptions_list",
        parameters=query_parameters(PreemptionFilter),
        responses=shapes.PreemptionPage,
    )
    def get(self, request: Request) -> Response:
        """List the sessions that made room for others, or would have in a dry run, newest first.

        Of a session that the caller may not see it tells only the class.
        """
        wanted = query_of(PreemptionFilter, request.query_params)
        cursor = RowCursor("-id")
        page = cursor.read(wanted.apply(self.actor, preemptions_listed(self.actor)), request)
        return cursor.get_paginated_response(preemptions_json(page))
