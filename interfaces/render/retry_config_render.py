"""Renders retry defaults and retry settings."""

from typing import Any

from retry.engine.decide import Mode
from retry.engine.decision import GLOBAL_MAX_RETRIES
from retry.policies.inline import Bounds
from retry.policies.merge import Layer, MergedBounds, merge
from sessions_app.core.stored_numbers import in_short
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.layers import bound_layers, policy_layers
from sessions_app.in_force.retry_scope import settings_in_force
from sessions_app.models import RetryDefaults, RetrySettings


def defaults_json(scope: ConfigScope, row: RetryDefaults | None) -> dict[str, Any]:
    """Return the inline policy and the bounds of a scope, empty if it has none."""
    return {
        "scope": scope.name,
        "policy": in_short(row.policy) if row else {},
        "bounds": in_short(row.bounds) if row else {},
        "updated_at": row.updated_at if row else None,
    }


def effective_json(scope: ConfigScope) -> dict[str, Any]:
    """Return the merge of all layers, with the layer of each field."""
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


def settings_json(scope: ConfigScope, row: RetrySettings | None) -> dict[str, Any]:
    """Return the settings of a scope, and what applies with those above it."""
    domain = scope.project.domain if scope.project else scope.domain
    in_force = settings_in_force(project=scope.project, domain=domain)
    body: dict[str, Any] = {
        "scope": scope.name,
        "mode": row.mode if row else Mode.ON.value,
        "effective_mode": in_force.mode.value,
        "refuse_unfittable": row.refuse_unfittable if row else None,
        "effective_refuse_unfittable": in_force.refuses_unfittable,
        "retry_budget": row.retry_budget if row else None,
        "updated_at": row.updated_at if row else None,
    }
    if scope.domain is None:
        body["breaker"] = row.breaker if row else None
    if scope.project is not None:
        body["pod_defaults"] = row.pod_defaults if row else None
    if scope.name == "cluster":
        body["global_max_retries"] = row.most_retries if row else GLOBAL_MAX_RETRIES
        body["default_policy"] = (row.default_policy or None) if row else None
        body["retries_per_minute"] = row.retries_per_minute if row else None
        body["queue_retries_per_minute"] = row.queue_retries_per_minute if row else None
    return body
