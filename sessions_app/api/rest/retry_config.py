"""Retry defaults and retry settings of the cluster, of domains and of projects."""

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Self

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr
from rest_framework.request import Request
from rest_framework.response import Response

from retry.decide import Mode
from retry.merge import Layer, MergedBounds, merge
from retry.policy import Bounds, InlinePolicy
from sessions_app.api import responses
from sessions_app.api.filters import query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, authorize
from sessions_app.errors import InvalidInput
from sessions_app.models import RetryDefaults, RetrySettings
from sessions_app.retry_layers import bound_layers, policy_layers
from sessions_app.retry_scopes import DEFAULT_GLOBAL_MAX_RETRIES, strictest
from sessions_app.selectors import domain_get, project_get
from sessions_app.services.retry_config import (
    SETTINGS,
    ConfigScope,
    layer_version,
    retry_defaults_delete,
    retry_defaults_put,
    retry_settings_put,
)


class DefaultsBody(BaseModel):
    """`PUT` replaces both parts; `PATCH` changes the named fields of the parts that are sent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: InlinePolicy = InlinePolicy()
    bounds: Bounds = Bounds()


class DefaultsQuery(BaseModel):
    """Whether to show the merge of all layers, too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    effective: bool = False


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


_PerMinute = Annotated[StrictInt, Field(ge=1, le=1_000_000)]


class SettingsBody(BaseModel):
    """The switch; all else is the cluster's only. A limit that is null is the shipped one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Annotated[Mode, BeforeValidator(_lower)] = Mode.ON
    global_max_retries: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = None
    default_policy: Annotated[StrictStr, Field(min_length=1, max_length=63)] | None = None
    """Of chains whose queue and session name none."""
    retries_per_minute: _PerMinute | None = None
    """What is over it is postponed; null: no limit."""
    queue_retries_per_minute: _PerMinute | None = None
    """The same in each queue."""


_ACTIONS = {
    "cluster": (Action.CLUSTER_DEFAULTS_READ, Action.CLUSTER_DEFAULTS_WRITE),
    "domain": (Action.DOMAIN_DEFAULTS_READ, Action.DOMAIN_DEFAULTS_WRITE),
    "project": (Action.PROJECT_DEFAULTS_READ, Action.PROJECT_DEFAULTS_WRITE),
}


class ScopeView(RestView):
    """A view under `cluster/`, `domains/{domain}/` or `projects/{domain}/{project}/`."""

    level: ClassVar[str]

    @classmethod
    def at(cls, level: str) -> "type[Self]":
        """This view for one kind of scope, with the actions that belong to it."""
        read, write = _ACTIONS[level]
        actions = {"GET": read, "PUT": write, "PATCH": write, "DELETE": write}
        return type(cls.__name__, (cls,), {"level": level, "actions": actions})

    def scope(self, names: dict[str, str]) -> ConfigScope:
        """The scope that the URL names, if the actor may do this to it."""
        action = self.required_action
        if self.level == "project":
            project = project_get(self.actor, names["domain"], names["project"], action)
            return ConfigScope(project=project)
        if self.level == "domain":
            return ConfigScope(domain=domain_get(self.actor, names["domain"], action))
        authorize(self.actor, action)
        return ConfigScope()


class DefaultsView(ScopeView):
    """`/retry-defaults/...`."""

    @extend_schema(parameters=query_parameters(DefaultsQuery), responses=responses.Defaults)
    def get(self, request: Request, **names: str) -> Response:
        """The defaults and bounds of one scope; with `effective`, the merge and its layers."""
        scope = self.scope(names)
        query = query_of(DefaultsQuery, request.query_params)
        row = RetryDefaults.objects.filter(**scope.key).first()
        body = _defaults_json(scope, row)
        body |= _effective(scope) if query.effective else {}
        return Response(body, headers=etag(layer_version(row)))

    @extend_schema(parameters=[IF_MATCH], request=DefaultsBody, responses=responses.Defaults)
    def put(self, request: Request, **names: str) -> Response:
        """Replace the defaults and bounds of one scope."""
        scope = self.scope(names)
        return self._store(scope, request)

    @extend_schema(parameters=[IF_MATCH], request=DefaultsBody, responses=responses.Defaults)
    def patch(self, request: Request, **names: str) -> Response:
        """Change the fields that are named; the others stay as they are."""
        scope = self.scope(names)
        return self._store(scope, request, keep=True)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Inherit everything again."""
        scope = self.scope(names)
        retry_defaults_delete(scope, by=self.actor.name, expected=expected_of(request))
        return Response(status=204)

    def _store(self, scope: ConfigScope, request: Request, *, keep: bool = False) -> Response:
        body = DefaultsBody.model_validate(body_of(request))
        row = retry_defaults_put(
            scope,
            policy=body.policy,
            bounds=body.bounds,
            by=self.actor.name,
            keep=keep,
            expected=expected_of(request),
        )
        return Response(_defaults_json(scope, row), headers=etag(layer_version(row)))


def _defaults_json(scope: ConfigScope, row: RetryDefaults | None) -> dict[str, Any]:
    return {
        "scope": scope.name,
        "policy": row.policy if row else {},
        "bounds": row.bounds if row else {},
        "updated_at": row.updated_at if row else None,
    }


def _effective(scope: ConfigScope) -> dict[str, Any]:
    merged = merge(policy_layers(scope.project, scope.domain))
    values = merged.policy.model_dump(mode="json")
    return {
        "effective": {
            name: {"value": values[name], "layer": layer.value}
            for name, layer in merged.source.items()
        },
        "effective_bounds": _bounds_json(bound_layers(scope.project, scope.domain)),
    }


def _bounds_json(bounds: MergedBounds) -> dict[str, Any]:
    found = {name: getattr(bounds, name) for name in Bounds.model_fields}
    return {
        name: {"value": bound.value, "layer": Layer(bound.layer).value}
        for name, bound in found.items()
        if bound is not None
    }


class SettingsView(ScopeView):
    """`/retry-settings/...`."""

    @extend_schema(responses=responses.Settings)
    def get(self, request: Request, **names: str) -> Response:  # noqa: ARG002
        """The switch of one scope, and the strictest one of those above it."""
        scope = self.scope(names)
        row = RetrySettings.objects.filter(**scope.key).first()
        return Response(_settings_json(scope, row), headers=etag(layer_version(row)))

    @extend_schema(parameters=[IF_MATCH], request=SettingsBody, responses=responses.Settings)
    def put(self, request: Request, **names: str) -> Response:
        """Set the switch, effective at once."""
        scope = self.scope(names)
        return self._store(scope, SettingsBody.model_validate(body_of(request)))

    @extend_schema(parameters=[IF_MATCH], request=SettingsBody, responses=responses.Settings)
    def patch(self, request: Request, **names: str) -> Response:
        """Change what is named."""
        scope = self.scope(names)
        body = SettingsBody.model_validate(body_of(request))
        return self._store(scope, body, only=body.model_fields_set)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:  # noqa: ARG002
        """Switch back to `on`, and the cluster to the shipped limits, without a default policy."""
        self._store(self.scope(names), SettingsBody())
        return Response(status=204)

    def _store(
        self, scope: ConfigScope, body: SettingsBody, only: Collection[str] = SETTINGS
    ) -> Response:
        sent: dict[str, Any] = {name: getattr(body, name) for name in only}
        if self.level != "cluster":
            errors = {
                name: ["can only be set for the cluster"]
                for name, value in sent.items()
                if name != "mode" and value is not None
            }
            if errors:
                raise InvalidInput(errors)
            sent = {name: value for name, value in sent.items() if name == "mode"}
        elif "default_policy" in sent:
            sent["default_policy"] = sent["default_policy"] or ""
        expected = expected_of(self.request)
        row = retry_settings_put(scope, by=self.actor.name, expected=expected, **sent)
        return Response(_settings_json(scope, row), headers=etag(layer_version(row)))


def _settings_json(scope: ConfigScope, row: RetrySettings | None) -> dict[str, Any]:
    domain = scope.project.domain if scope.project else scope.domain
    body: dict[str, Any] = {
        "scope": scope.name,
        "mode": row.mode if row else Mode.ON.value,
        "effective_mode": strictest(project=scope.project, domain=domain).value,
        "updated_at": row.updated_at if row else None,
    }
    if scope.name == "cluster":
        limit = row.global_max_retries if row else None
        body["global_max_retries"] = DEFAULT_GLOBAL_MAX_RETRIES if limit is None else limit
        body["default_policy"] = (row.default_policy or None) if row else None
        body["retries_per_minute"] = row.retries_per_minute if row else None
        body["queue_retries_per_minute"] = row.queue_retries_per_minute if row else None
    return body
