"""Retries by hand with changes: what they do to each chain, and why a chain cannot have them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from retry.policies.inline import dump_stored, parse_policy_json
from retry.policies.merge import violations
from sessions_app.core.errors import DomainError, InvalidInput, SecretUnreadable
from sessions_app.core.retry_changes import Changes, merged_changes
from sessions_app.core.time_limits import TimeLimits, above, is_above
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.models import Queue
from sessions_app.services.chains.children import Retry
from sessions_app.services.secrets.removed import removed_variables, secrets_left, secrets_of


def changed_retries(
    retries: Sequence[Retry], changes: Changes, scopes: Mapping[int, RetryScope]
) -> tuple[dict[UUID, Retry], dict[UUID, DomainError]]:
    """Return the retries with the changes, and the refusals, by the id of the failed session.

    Two statements at most, and none without changes.
    """
    if not changes or not retries:
        return {retry.parent.id: retry for retry in retries}, {}
    secrets = secrets_of(retry.parent.id for retry in retries) if changes.get("environ") else {}
    queues = _time_limits(retries) if "batch_timeout" in changes else {}
    made: dict[UUID, Retry] = {}
    refused: dict[UUID, DomainError] = {}
    for retry in retries:
        parent = retry.parent
        try:
            _check_names(changes, *secrets.get(parent.id, ((), "")))
            _check_time(changes, queues.get(parent.queue_id))
            wanted = merged_changes(retry.changes, changes)
            made[parent.id] = replace(
                retry, changes=_with_policy(retry, wanted, scopes[parent.project_id])
            )
        except InvalidInput as error:
            refused[parent.id] = error
    return made, refused


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


def _check_names(changes: Changes, secrets: Sequence[str], stored: str) -> None:
    removed = removed_variables(changes)
    given = set(changes.get("environ") or ()) - removed
    if both := sorted(given.intersection(secrets)):
        text = f"has {', '.join(both[:5])}, which secret_environ also has"
        raise InvalidInput({"changes.environ": [text]})
    if gone := sorted(removed.intersection(secrets)):
        try:
            secrets_left(secrets, stored, changes)
        except SecretUnreadable as error:
            text = f"cannot be removed: {error}"
            raise InvalidInput({f"changes.environ.{gone[0]}": [text]}) from None


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
