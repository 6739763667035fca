"""Changes laid over what a session asks for. Pure."""

from collections.abc import Mapping
from typing import Any

from podspec.resources import GROUPS, grouped, groups


def merged_resources(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the amounts that `changes` names in place of its own; the others stay.

    Plain amounts stand for the request and the limit alike: over a base of `requests` and `limits`
    they change both, and a plain base under `limits` keeps its amounts as requests.
    """
    if not changes or not base:
        return dict(changes or base)
    if not grouped(base) and not grouped(changes):
        return {**base, **changes}
    below, above = groups(base), groups(changes)
    return {
        group: {**below[group], **above[group]} for group in GROUPS if below[group] or above[group]
    }
