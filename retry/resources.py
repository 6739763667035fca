"""What a session asks for, with changes laid over it. Pure.

Both are in one of two forms: plain amounts by resource, each what the session gets and may use at
most; or `requests` and `limits`.
"""

from collections.abc import Mapping
from typing import Any

GROUPS = ("requests", "limits")


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
