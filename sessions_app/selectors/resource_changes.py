"""The resources that decisions gave to next attempts beyond those of the failed ones, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from base.podspec.resources import GROUPS, grouped
from sessions_app.models import RetryDecision, Session


def resources_granted(attempts: Sequence[Session]) -> dict[UUID, str]:
    """Return changes such as `memory 2Gi → 4Gi` by failed attempt, for those that have any.

    The attempts come with their decisions. Takes one query, none if nothing was granted.
    """
    given = {
        attempt.pk: decision.resources
        for attempt in attempts
        if (decision := _decision(attempt)) and decision.resources is not None
    }
    if not given:
        return {}
    had = Session.objects.filter(pk__in=given).values_list("pk", "spec__resources")
    found = {pk: ", ".join(resource_changes(before, given[pk])) for pk, before in had}
    return {pk: changes for pk, changes in found.items() if changes}


def _decision(attempt: Session) -> RetryDecision | None:
    return getattr(attempt, "decision", None)


def resource_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield `memory 2Gi → 4Gi` for each amount that differs; both forms of resources are read."""
    was = _flat(before)
    changed: dict[tuple[str, str, str], list[str]] = {}
    for (group, name), amount in _flat(after).items():
        old = was.get((group, name)) or was.get(("", name), "none")
        if old != amount:
            changed.setdefault((name, old, amount), []).append(group)
    for (name, old, new), groups in changed.items():
        group = f"{groups[0]} " if len(groups) == 1 and groups[0] else ""
        yield f"{group}{name} {old} → {new}"


def _flat(resources: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    if not grouped(resources):
        return {("", name): str(amount) for name, amount in resources.items()}
    return {
        (group, name): str(amount)
        for group in GROUPS
        for name, amount in (resources.get(group) or {}).items()
    }


def flat_resources(resources: Mapping[str, Any]) -> dict[str, str]:
    """Return the amounts of either form by name: `memory`, or `limits memory`."""
    return {" ".join(filter(None, key)): amount for key, amount in _flat(resources).items()}
