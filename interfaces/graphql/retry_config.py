"""Retry defaults and retry settings of the cluster, domains and projects, in GraphQL."""

from typing import Any

import graphene

from interfaces.calls.retry_config import READ
from interfaces.graphql.connections import one
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import RetryMode
from interfaces.graphql.inline_policy import (
    Bounds,
    FieldLayer,
    InlinePolicy,
    layers_of,
    values_of,
)
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.policies import VERSION
from interfaces.graphql.scopes import SCOPE, scope_of
from interfaces.graphql.shapes import shape_of
from interfaces.render.retry_config_render import defaults_json, effective_json, settings_json
from interfaces.shapes import session_shapes as shapes
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import RetryDefaults as DefaultsRow
from sessions_app.models import RetrySettings as SettingsRow
from sessions_app.selectors.retry_config import defaults_of, settings_of
from sessions_app.services.resources.retry_config import layer_version

_DefaultsShape: Any = shape_of(
    shapes.Defaults,
    leave_out={"effective", "effective_bounds"},
    kinds={"policy": InlinePolicy, "bounds": Bounds},
)
_SettingsShape: Any = shape_of(
    shapes.Settings, kinds={"mode": RetryMode, "effective_mode": RetryMode}
)


def _layers(description: str) -> graphene.List:
    return graphene.List(graphene.NonNull(FieldLayer), required=True, description=description)


class RetryDefaults(_DefaultsShape, RestObject):
    """The inline policy and the bounds of a scope. Absent fields are inherited."""

    version = graphene.String(required=True, description=VERSION)
    effective = graphene.Field(InlinePolicy, required=True, description="The merge of all layers.")
    effective_layers = _layers("The layer that sets each field of `effective`.")
    effective_bounds = graphene.Field(Bounds, required=True)
    effective_bound_layers = _layers("The layer that sets each bound.")

    @staticmethod
    def resolve_effective(source: dict[str, Any], _info: Any) -> Any:
        return values_of(_merged(source)["effective"])

    @staticmethod
    def resolve_effective_layers(source: dict[str, Any], _info: Any) -> Any:
        return layers_of(_merged(source)["effective"])

    @staticmethod
    def resolve_effective_bounds(source: dict[str, Any], _info: Any) -> Any:
        return values_of(_merged(source)["effective_bounds"])

    @staticmethod
    def resolve_effective_bound_layers(source: dict[str, Any], _info: Any) -> Any:
        return layers_of(_merged(source)["effective_bounds"])


def _merged(source: dict[str, Any]) -> dict[str, Any]:
    """Return the merge, made once for all fields that need it."""
    if "merged" not in source:
        source["merged"] = effective_json(source["of"])
    return source["merged"]  # type: ignore[no-any-return]


class RetrySettings(_SettingsShape, RestObject):
    """The settings of a scope, and those in effect, which include the scopes above. Limits and the
    default policy are for the cluster only."""

    version = graphene.String(required=True, description=VERSION)


class RetryConfigQueries:
    """The root fields of defaults and settings."""

    retry_defaults = one(
        RetryDefaults, "The defaults of a project, a domain, or else the cluster.", **SCOPE
    )
    retry_settings = one(
        RetrySettings, "The settings of a project, a domain, or else the cluster.", **SCOPE
    )

    @staticmethod
    def resolve_retry_defaults(_root: None, info: Any, **scope: Any) -> dict[str, Any]:
        found = scope_of(actor_of(info), READ, **scope)
        return render_defaults(found, defaults_of(found))

    @staticmethod
    def resolve_retry_settings(_root: None, info: Any, **scope: Any) -> dict[str, Any]:
        found = scope_of(actor_of(info), READ, **scope)
        return render_settings(found, settings_of(found))


def render_defaults(scope: ConfigScope, row: DefaultsRow | None) -> dict[str, Any]:
    """Return the source of `RetryDefaults`."""
    return {**defaults_json(scope, row), "version": layer_version(row), "of": scope}


def render_settings(scope: ConfigScope, row: SettingsRow | None) -> dict[str, Any]:
    """Return the source of `RetrySettings`."""
    return {**settings_json(scope, row), "version": layer_version(row)}
