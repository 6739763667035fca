"""Retries by hand with changes: what they do to each chain, and why a chain cannot have them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from retry.policies.inline import dump_stored, parse_policy_json
from retry.policies.merge import violations
from sessions_app.core.errors import DomainError, InvalidInput
from sessions_app.core.retry_changes import RUN_FIELDS, Changes, merged_changes
from sessions_app.core.time_limits import TimeLimits, above, is_above
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.models import Queue
from sessions_app.services.chains.children import Retry
from sessions_app.services.secrets.changed import (
    NONE,
    Secrets,
    changed_secrets,
    secrets_of,
    user_named,
)


def changed_retries(
    retries: Sequence[Retry], changes: Changes, scopes: Mapping[int, RetryScope], *, by: str
) -> tuple[dict[UUID, Retry], dict[UUID, DomainError]]:
    """Return the retries with the changes by a person, and the refusals, by the failed session.

    Three statements at most, and none without changes.
    """
    if not changes or not retries:
        return {retry.parent.id: retry for retry in retries}, {}
    runs = not RUN_FIELDS.isdisjoint(changes)
    secrets = _secrets(retries) if runs else {}
    asking = user_named(by) if secrets or "secret_environ" in changes else None
    queues = _time_limits(retries) if "batch_timeout" in changes else {}
    made: dict[UUID, Retry] = {}
    refused: dict[UUID, DomainError] = {}
    for retry in retries:
        parent = retry.parent
        try:
            _check_time(changes, queues.get(parent.queue_id))
            parts = changed_secrets(secrets.get(parent.id, NONE), changes, asking)
            wanted = _merged(retry.changes or {}, changes, parts)
            made[parent.id] = replace(
                retry, changes=_with_policy(retry, wanted, scopes[parent.project_id])
            )
        except InvalidInput as error:
            refused[parent.id] = error
    return made, refused


def _secrets(retries: Sequence[Retry]) -> dict[UUID, Secrets]:
    """Return the secrets that the attempts would get: those of waiting changes before others."""
    found = secrets_of(retry.parent.id for retry in retries)
    for retry in retries:
        if waiting := (retry.changes or {}).get("secrets"):
            found[retry.parent.id] = Secrets(**waiting)
    return found


_TOLD = ("secret_environ", "secrets_dropped")


def _merged(before: Changes, changes: Changes, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes over those that wait, with the `parts` that tell of the secrets."""
    after = {name: value for name, value in changes.items() if name != "secret_environ"}
    merged = merged_changes(before, after)
    if not parts:
        return merged
    names = set(parts["secrets"]["names"])
    given, dropped = ({*before.get(n, ()), *parts.get(n, ())} for n in _TOLD)
    told = zip(_TOLD, (sorted(given & names), sorted(dropped - names)), strict=True)
    kept = {name: value for name, value in merged.items() if name not in _TOLD}
    return {**kept, **{n: value for n, value in told if value}, "secrets": parts["secrets"]}


def _time_limits(retries: Sequence[Retry]) -> dict[int, tuple[str, TimeLimits]]:
    rows = Queue.objects.filter(pk__in={retry.parent.queue_id for retry in retries})
    return {key: (name, limits) for key, name, limits in rows.values_list("pk", *_OF_QUEUE)}


_OF_QUEUE = ("name", "time_limits")


def _check_time(changes: Changes, queue: tuple[str, TimeLimits] | None) -> None:
    if queue is None:
        return
    name, limits = queue
    limit = limits.get("batch_timeout", {})
    if is_above(changes["batch_timeout"], limit):
        raise InvalidInput({"changes.batch_timeout": [above(limit["max"], name)]})


def _with_policy(retry: Retry, changes: Changes, scope: RetryScope) -> dict[str, Any]:
    """Return the changes with the whole policy of the attempt. Raises `InvalidInput`."""
    asked = changes.get("retry_policy")
    if not asked:
        return dict(changes)
    given = parse_policy_json(json.dumps(asked))
    if over := violations(given, scope.bounds):
        found = {f"changes.retry_policy.{name}": texts for name, texts in over.items()}
        raise InvalidInput(found)
    had = parse_policy_json(retry.parent.retry_policy)
    fields = {name: getattr(given, name) for name in given.model_fields_set}
    frozen = json.loads(dump_stored(had.model_copy(update=fields)))
    return {**changes, "frozen": frozen}
