"""Retry defaults and retry settings of the cluster, of domains and of projects."""

from typing import ClassVar, Self

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import retry_config as operations
from interfaces.calls.retry_config import DefaultsBody, DefaultsPatch, SettingsBody
from interfaces.http.preconditions import IF_MATCH, etag, expected_of
from interfaces.http.views import RestView, body_of
from interfaces.openapi.generator import query_parameters
from interfaces.render.retry_config_render import defaults_json, effective_json, settings_json
from interfaces.requests.queries import query_of
from interfaces.requests.strict import StrictModel
from interfaces.shapes import session_shapes
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.retry_config import defaults_of, settings_of
from sessions_app.services.resources.retry_config import layer_version


class DefaultsQuery(StrictModel):
    """The query parameters of retry defaults. `effective` adds the merge of all layers."""

    effective: bool = False


class ScopeView(RestView):
    """A view under `cluster/`, `domains/{domain}/` or `projects/{domain}/{project}/`."""

    level: ClassVar[str]

    @classmethod
    def at(cls, level: str) -> "type[Self]":
        """Return this view for one level of scopes, with its actions."""
        read, write = operations.READ[level], operations.WRITE[level]
        actions = {"GET": read, "PUT": write, "PATCH": write, "DELETE": write}
        return type(cls.__name__, (cls,), {"level": level, "actions": actions})

    def scope(self, names: dict[str, str]) -> ConfigScope:
        """Return the scope that the URL names, if the caller may do the action there."""
        return operations.config_scope(self.actor, names, self.required_action)


class DefaultsView(ScopeView):
    """`/retry-defaults/...`."""

    @extend_schema(parameters=query_parameters(DefaultsQuery), responses=session_shapes.Defaults)
    def get(self, request: Request, **names: str) -> Response:
        """The defaults and bounds of a scope. With `effective`, also the merged values and their
        layers."""
        scope = self.scope(names)
        query = query_of(DefaultsQuery, request.query_params)
        row = defaults_of(scope)
        body = defaults_json(scope, row)
        body |= effective_json(scope) if query.effective else {}
        return Response(body, headers=etag(layer_version(row)))

    @extend_schema(parameters=[IF_MATCH], request=DefaultsBody, responses=session_shapes.Defaults)
    def put(self, request: Request, **names: str) -> Response:
        """Replace the defaults and bounds of one scope."""
        return self._store(request, names, keep=False)

    @extend_schema(parameters=[IF_MATCH], request=DefaultsPatch, responses=session_shapes.Defaults)
    def patch(self, request: Request, **names: str) -> Response:
        """Change the given fields. Fields in `unset` are removed; all others stay as they are."""
        return self._store(request, names, keep=True)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Remove the defaults of a scope, so that it inherits everything."""
        operations.defaults_delete(self.actor, names, expected_of(request))
        return Response(status=204)

    def _store(self, request: Request, names: dict[str, str], *, keep: bool) -> Response:
        body, expected = body_of(request), expected_of(request)
        scope, row = operations.defaults_store(self.actor, names, body, expected, keep=keep)
        return Response(defaults_json(scope, row), headers=etag(layer_version(row)))


class SettingsView(ScopeView):
    """`/retry-settings/...`."""

    @extend_schema(responses=session_shapes.Settings)
    def get(self, request: Request, **names: str) -> Response:
        """The kill switch of a scope, and the one in effect, which is the strictest of it and those
        above."""
        scope = self.scope(names)
        row = settings_of(scope)
        return Response(settings_json(scope, row), headers=etag(layer_version(row)))

    @extend_schema(parameters=[IF_MATCH], request=SettingsBody, responses=session_shapes.Settings)
    def put(self, request: Request, **names: str) -> Response:
        """Set the kill switch of a scope, effective at once."""
        return self._store(request, names, keep=False)

    @extend_schema(parameters=[IF_MATCH], request=SettingsBody, responses=session_shapes.Settings)
    def patch(self, request: Request, **names: str) -> Response:
        """Change the given fields."""
        return self._store(request, names, keep=True)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Reset the settings of a scope. The switch becomes `on`; the cluster gets the shipped
        limits and no default policy."""
        operations.settings_delete(self.actor, names, expected_of(request))
        return Response(status=204)

    def _store(self, request: Request, names: dict[str, str], *, keep: bool) -> Response:
        body, expected = body_of(request), expected_of(request)
        scope, row = operations.settings_store(self.actor, names, body, expected, keep=keep)
        return Response(settings_json(scope, row), headers=etag(layer_version(row)))
