"""The audit log over REST."""

from typing import ClassVar
from urllib.parse import urlencode

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.audit_render import audit_json
from interfaces.requests.audit_cursors import cursor_before, cursor_behind, cursor_read
from interfaces.requests.filters import AuditFilter
from interfaces.requests.queries import query_of
from interfaces.shapes import audit_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.selectors.audit import audit_page


class AuditView(RestView):
    """`/audit/`."""

    actions: ClassVar = {"GET": Action.AUDIT_READ}

    @extend_schema(
        operation_id="audit_list",
        parameters=query_parameters(AuditFilter),
        responses=shapes.AuditPage,
    )
    def get(self, request: Request) -> Response:
        """List the audit entries of the scopes that you may configure, newest first."""
        asked = query_of(AuditFilter, request.query_params)
        newer, place = cursor_read(asked.cursor)
        rows = audit_page(
            self.actor, asked.wanted(), limit=asked.page_size + 1, place=place, newer=newer
        )
        more, rows = len(rows) > asked.page_size, rows[: asked.page_size]
        if newer:
            rows.reverse()
        older = more or newer
        before = more if newer else place is not None
        return Response(
            {
                "next": _link(request, cursor_behind(rows[-1])) if rows and older else None,
                "previous": _link(request, cursor_before(rows[0])) if rows and before else None,
                "results": [audit_json(each) for each in rows],
            }
        )


def _link(request: Request, cursor: str) -> str:
    query = urlencode({**request.query_params.dict(), "cursor": cursor})
    return request.build_absolute_uri(f"{request.path}?{query}")
