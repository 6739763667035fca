"""Changes of the defaults, the bounds and the switches of a scope."""

from collections.abc import Collection
from typing import Any, TypedDict, Unpack

from django.db import transaction

from retry.engine.decide import Mode
from retry.policies.inline import STORED, Bounds, InlinePolicy, dump_set
from retry.policies.merge import violations
from sessions_app import wakeups
from sessions_app.audit.context import audited
from sessions_app.core.errors import InvalidInput
from sessions_app.core.versions import Expected, version_of
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.layers import bound_layers
from sessions_app.locks import database_now
from sessions_app.locks.resources import (
    lock_defaults,
    lock_or_make_defaults,
    lock_or_make_settings,
)
from sessions_app.models import RetryDefaults, RetrySettings
from sessions_app.services.resources.policy_names import policies_require

SETTINGS = (
    "mode",
    "global_max_retries",
    "default_policy",
    "retries_per_minute",
    "queue_retries_per_minute",
    "refuse_unfittable",
    "breaker",
    "retry_budget",
    "pod_defaults",
)
EVERYWHERE = frozenset({"mode", "refuse_unfittable", "retry_budget"})
"""The settings that each scope has; the others are the cluster's."""


def retry_defaults_put(
    scope: ConfigScope,
    *,
    policy: InlinePolicy,
    bounds: Bounds,
    by: str,
    keep: bool = False,
    unset: Collection[str] = (),
    expected: Expected | None = None,
) -> RetryDefaults:
    """Replace the defaults of a scope; with `keep`, only the fields that are set.

    Fields of the policy in `unset` are inherited again. Raises `InvalidInput` for the fields that
    exceed the bounds of this scope or one above, and `Outdated` if the defaults are not `expected`.
    """
    values = {"policy": dump_set(policy), "bounds": _bounds(bounds)}
    with audited(by=by), transaction.atomic():
        row, new = lock_or_make_defaults(scope.key, values)
        if expected is not None:
            expected.check(layer_version(None if new else row))
        if keep:
            kept = {name: value for name, value in row.policy.items() if name not in unset}
            policy = InlinePolicy.model_validate(kept | dump_set(policy), context=STORED)
            bounds = Bounds.model_validate(row.bounds | dump_set(bounds))
        row.policy = dump_set(policy)
        row.bounds = _bounds(bounds)
        row.updated_at = database_now()
        row.save()
        over = violations(policy, bound_layers(scope.project, scope.domain))
        if over:
            raise InvalidInput({f"policy.{name}": texts for name, texts in over.items()})
    return row


def _bounds(bounds: Bounds) -> dict[str, Any]:
    values: dict[str, Any] = bounds.model_dump(mode="json", exclude_none=True)
    return values


def layer_version(row: RetryDefaults | RetrySettings | None) -> str:
    """Return the version of what was last written; None, without a row, has a version, too."""
    return version_of(None if row is None else [row.pk, row.updated_at])


def retry_defaults_delete(scope: ConfigScope, *, by: str, expected: Expected | None = None) -> None:
    """Make a scope inherit everything again; deleting missing defaults is no error.

    Raises `Outdated` if they are not `expected`.
    """
    with audited(by=by), transaction.atomic():
        row = lock_defaults(scope.key)
        if expected is not None:
            expected.check(layer_version(row))
        if row is not None:
            row.delete()


class SettingsValues(TypedDict, total=False):
    """Fields of `RetrySettings`; all but those `EVERYWHERE` belong to the cluster."""

    mode: Mode
    global_max_retries: int | None
    """Null: chains have no limit."""
    default_policy: str
    """The name of a policy of the cluster; "" for none."""
    retries_per_minute: int | None
    queue_retries_per_minute: int | None
    refuse_unfittable: bool | None
    """Null: as the scope above says."""
    breaker: dict[str, Any] | None
    """A `BreakerRule`, of the cluster or of a project."""
    retry_budget: dict[str, Any] | None
    """The fields of `SharedBudget`, all of them; null: none."""
    pod_defaults: dict[str, Any] | None
    """Pod defaults of a project; null: none."""


def retry_settings_put(
    scope: ConfigScope,
    *,
    by: str,
    expected: Expected | None = None,
    **values: Unpack[SettingsValues],
) -> RetrySettings:
    """Set the given fields of a scope's settings, effective at once; others stay as they are.

    Raises `InvalidInput` for `default_policy` if the cluster has no such policy, `Outdated` if the
    settings are not `expected`.
    """
    with audited(by=by), transaction.atomic():
        if name := values.get("default_policy"):
            policies_require([name], project=None, field="default_policy")
        stored = _stored(scope, values)
        row, new = lock_or_make_settings(scope.key, stored)
        if expected is not None:
            expected.check(layer_version(None if new else row))
        for field, value in stored.items():
            setattr(row, field, value)
        row.updated_at = database_now()
        row.save()
        wakeups.sweep_after_commit()
    return row


def _stored(scope: ConfigScope, values: SettingsValues) -> dict[str, Any]:
    """Return the columns that hold the values."""
    stored: dict[str, Any] = {**values}
    if "mode" in values:
        stored["mode"] = Mode(values["mode"]).value
    if "global_max_retries" in values and scope == ConfigScope():
        stored["global_unlimited"] = True if values["global_max_retries"] is None else None
    return stored
