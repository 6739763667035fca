"""Merging of inline policies over their layers, and of the bounds that the layers set."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.limits import Limit


class Layer(StrEnum):
    """The layer in which a value was set, farthest from the session first."""

    SHIPPED = "shipped"
    CLUSTER = "cluster"
    DOMAIN = "domain"
    PROJECT = "project"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Merged:
    """An inline policy with every field set, and the layer of each field."""

    policy: InlinePolicy
    source: dict[str, Layer]


@dataclass(frozen=True, slots=True)
class Bound:
    value: float
    layer: Layer


@dataclass(frozen=True, slots=True)
class MergedBounds:
    """The strictest bound of each kind, with the layer that set it; None is no bound."""

    max_retries: Bound | None = None
    max_preemption_retries: Bound | None = None
    max_chain_duration: Bound | None = None
    min_retry_delay: Bound | None = None


NO_BOUNDS = MergedBounds()


def merge(layers: Sequence[tuple[Layer, InlinePolicy]]) -> Merged:
    """Merge field by field; the last layer (farthest first) that sets a field wins."""
    values = {name: getattr(_SHIPPED, name) for name in InlinePolicy.model_fields}
    source = dict.fromkeys(values, Layer.SHIPPED)
    for layer, policy in layers:
        for name in policy.model_fields_set:
            values[name] = getattr(policy, name)
            source[name] = layer
    return Merged(InlinePolicy.model_construct(**values), source)


def merge_bounds(layers: Sequence[tuple[Layer, Bounds]]) -> MergedBounds:
    """Keep the strictest bound of each kind; the first layer wins if several are equal."""
    merged = NO_BOUNDS
    for layer, bounds in layers:
        for name in Bounds.model_fields:
            value = getattr(bounds, name)
            known: Bound | None = getattr(merged, name)
            if value is not None and (known is None or _stricter(name, value, known.value)):
                merged = replace(merged, **{name: Bound(value, layer)})
    return merged


def violations(policy: InlinePolicy, bounds: MergedBounds) -> dict[str, list[str]]:
    """Return by field what the policy sets beyond a bound; inherited fields are not checked."""
    found: dict[str, list[str]] = {}
    for name, field, bound in _set_bounds(bounds):
        value = getattr(policy, field)
        if field in policy.model_fields_set and _within(name, value, bound) != value:
            found[field] = [_violation(name, field, value, bound)]
    return found


def bounded(
    policy: InlinePolicy, bounds: MergedBounds
) -> tuple[InlinePolicy, list[dict[str, Any]]]:
    """Apply the bounds. Return the policy, and a step for each change.

    A step is `{step, field, was, now, layer}`.
    """
    if bounds == NO_BOUNDS:
        return policy, []
    changes: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    for name, field, bound in _set_bounds(bounds):
        was = getattr(policy, field)
        now = _within(name, was, bound)
        if now != was:
            changes[field] = now
            steps.append(
                {"step": "bound", "field": field, "was": was, "now": now, "layer": str(bound.layer)}
            )
    return (policy.model_copy(update=changes), steps) if changes else (policy, steps)


_SHIPPED = InlinePolicy()
# The field of the policy that each bound restricts.
_FIELDS = {
    bound.name: "retry_delay" if bound.name == "min_retry_delay" else bound.name
    for bound in fields(MergedBounds)
}


def _set_bounds(bounds: MergedBounds) -> list[tuple[str, str, Bound]]:
    pairs = [(name, field, getattr(bounds, name)) for name, field in _FIELDS.items()]
    return [(name, field, bound) for name, field, bound in pairs if bound is not None]


def _stricter(name: str, value: float, known: float) -> bool:
    return value > known if name == "min_retry_delay" else value < known


def _within(name: str, value: float | Limit | None, bound: Bound) -> float | Limit | None:
    """Return the allowed value that is nearest to the given one."""
    if isinstance(value, str):
        return bound.value  # unlimited: over every number
    if value is None:
        # A null maximum age exceeds every limit. A null preemption budget exceeds none, since
        # platform causes then spend max_retries.
        return bound.value if name == "max_chain_duration" else None
    return bound.value if _stricter(name, bound.value, value) else value


def _violation(name: str, field: str, value: float | Limit | None, bound: Bound) -> str:
    if name == "min_retry_delay":
        limit = f"under the bound {name} of {_shown(bound.value)}"
    else:
        limit = f"over the bound of {_shown(bound.value)}"
    return f"{field} is {_shown(value)}, {limit} set by {bound.layer}"


def _shown(value: float | Limit | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else str(value)
