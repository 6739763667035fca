"""Retries by hand that ask for something else: whether any executor could run them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from base.podspec.resources import sensible_check
from sessions_app.core.errors import InvalidInput
from sessions_app.core.retry_changes import Changes
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.models import Session
from sessions_app.selectors.fitting import Asked, unfits
from sessions_app.services.chains.children import Retry

_ASKED = ("resources", "pod_spec")
"""The changes that decide where an attempt fits."""
_COLUMNS = ("pk", "spec__resources", "spec__cluster_size", "spec__pod_spec")


def unfit_retries(
    retries: Sequence[Retry], changes: Changes, scopes: Mapping[int, RetryScope]
) -> dict[UUID, str | InvalidInput]:
    """Return why retries with these changes fit on no executor, by the id of the failed session.

    It is a warning, or a refusal where the project wants that; resources that make no sense are
    refused everywhere. Two statements, and none if the changes do not decide where an attempt fits.
    """
    changed = [f"changes.{name}" for name in _ASKED if name in changes]
    if not retries or not changed:
        return {}
    rows = Session.objects.filter(pk__in=[retry.parent.id for retry in retries])
    specs = {key: spec for key, *spec in rows.values_list(*_COLUMNS)}
    found: dict[UUID, str | InvalidInput] = {}
    found |= {retry.parent.id: why for retry in retries if (why := _senseless(retry))}
    for retry, unfit in zip(retries, unfits([_wanted(r, specs) for r in retries]), strict=True):
        if unfit is None or retry.parent.id in found:
            continue
        parent, field = retry.parent, f"changes.{unfit.field}"
        refused = unfit.field and scopes[parent.project_id].refuses_unfittable
        named = field if field in changed else changed[0]
        found[parent.id] = InvalidInput({named: [unfit.why]}) if refused else unfit.why
    return found


def _senseless(retry: Retry) -> InvalidInput | None:
    """Return the refusal of a retry whose merged resources make no sense, such as a new request
    above the limit that stays."""
    try:
        if retry.resources_before is not None and retry.resources is not None:
            sensible_check(retry.resources)
    except ValueError as error:
        return InvalidInput({"changes.resources": [str(error)]})
    return None


def _wanted(retry: Retry, specs: Mapping[UUID, Sequence[Any]]) -> Asked:
    resources, pods, pod_spec = specs[retry.parent.id]
    given = retry.changes or {}
    return Asked(
        retry.parent.project_id,
        resources if retry.resources is None else retry.resources,
        pods,
        given.get("pod_spec", pod_spec),
    )
