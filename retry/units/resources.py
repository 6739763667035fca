"""Changes to the resources of a session. Pure."""

from collections.abc import Mapping
from typing import Any

from base.podspec.resources import GROUPS, grouped, groups


def merged_resources(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the amounts of `changes` in place of its own; the others stay.

    A plain amount stands for both request and limit: it replaces both in a base with `requests` and
    `limits`, and a plain base under `limits` keeps its amounts as requests.
    """
    if not changes or not base:
        return dict(changes or base)
    if not grouped(base) and not grouped(changes):
        return {**base, **changes}
    below, above = groups(base), groups(changes)
    return {
        group: {**below[group], **above[group]} for group in GROUPS if below[group] or above[group]
    }
