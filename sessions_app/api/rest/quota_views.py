"""Quotas of projects and domains over REST."""

from typing import Any, ClassVar, Self

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.views import RestView, body_of
from sessions_app.api.operations import quotas as operations
from sessions_app.api.operations.quotas import QuotasBody, quota_scope
from sessions_app.api.shapes import session_shapes
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.quotas import quotas_standing


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


def quotas_json(scope: ConfigScope) -> dict[str, Any]:
    """Return the limits of a scope in the form of the input, and the use of all that apply to
    it."""
    standing = quotas_standing(scope)
    own = {each.name: each.limit for each in standing if each.scope == scope.name}
    counts = {name: int(own[name]) if name in own else None for name in (SESSIONS, PENDING)}
    resources = {
        name.removeprefix(RESOURCES): limit
        for name, limit in own.items()
        if name.startswith(RESOURCES)
    }
    usage = [each._asdict() for each in standing]
    return {"scope": scope.name, **counts, "resources": resources, "usage": usage}
