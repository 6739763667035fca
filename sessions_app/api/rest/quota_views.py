"""Quotas of projects and domains over REST."""

from typing import ClassVar, Self

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.views import RestView, body_of
from sessions_app.api.kinds import quotas as operations
from sessions_app.api.kinds.quotas import QuotasBody, quota_scope
from sessions_app.api.render.tenant_render import quotas_json
from sessions_app.api.shapes import session_shapes


class QuotasView(RestView):
    """`/quotas/projects/{domain}/{project}/` and `/quotas/domains/{domain}/`."""

    level: ClassVar[str]

    @classmethod
    def at(cls, level: str) -> type[Self]:
        """Return this view for one level of scopes, with its actions."""
        read, write = operations.READ[level], operations.WRITE[level]
        actions = {"GET": read, "PUT": write, "PATCH": write, "DELETE": write}
        return type(cls.__name__, (cls,), {"level": level, "actions": actions})

    @extend_schema(responses=session_shapes.Quotas)
    def get(self, request: Request, **names: str) -> Response:
        """The limits of a scope, and the usage of all limits that apply to it."""
        return Response(quotas_json(quota_scope(self.actor, names, self.required_action)))

    @extend_schema(request=QuotasBody, responses=session_shapes.Quotas)
    def put(self, request: Request, **names: str) -> Response:
        """Replace the limits of one scope."""
        return self._store(request, names, keep=False)

    @extend_schema(request=QuotasBody, responses=session_shapes.Quotas)
    def patch(self, request: Request, **names: str) -> Response:
        """Change the given limits."""
        return self._store(request, names, keep=True)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Remove all limits of a scope."""
        operations.delete(self.actor, names)
        return Response(status=204)

    def _store(self, request: Request, names: dict[str, str], *, keep: bool) -> Response:
        return Response(quotas_json(operations.put(self.actor, names, body_of(request), keep=keep)))
