"""What a session asks for, with changes laid over it. Pure.

Both are in one of two forms: plain amounts by resource, each what the session gets and may use at
most; or `requests` and `limits`.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from retry.quantity import parse

GROUPS = ("requests", "limits")
Amounts = dict[str, Decimal]


def merged_resources(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the amounts that `changes` names in place of its own; the others stay.

    Plain amounts stand for the request and the limit alike: over a base of `requests` and `limits`
    they change both, and a plain base under `limits` keeps its amounts as requests.
    """
    if not changes or not base:
        return dict(changes or base)
    if not _grouped(base) and not _grouped(changes):
        return {**base, **changes}
    below, above = _groups(base), _groups(changes)
    return {
        group: {**below[group], **above[group]} for group in GROUPS if below[group] or above[group]
    }


def _grouped(resources: Mapping[str, Any]) -> bool:
    return any(group in resources for group in GROUPS)


def _groups(resources: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    if _grouped(resources):
        return {group: resources.get(group) or {} for group in GROUPS}
    return dict.fromkeys(GROUPS, resources)


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """What a session asks for: `requests` over `limits`, or the plain form."""
    flat: dict[str, Any] = {}
    if "limits" in resources or "requests" in resources:
        flat |= resources.get("limits") or {}
        flat |= resources.get("requests") or {}
    else:
        flat |= resources
    return {name: parse(value) for name, value in flat.items()}


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of amounts by resource."""
    summed: Amounts = {}
    for part in parts:
        for name, value in part.items():
            summed[name] = summed.get(name, Decimal(0)) + value
    return summed
