"""Retries by hand with changes: what they do to each chain, and why a chain cannot have them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from retry.policies.inline import dump_stored, parse_policy_json
from retry.policies.merge import violations
from sessions_app.core.errors import DomainError, InvalidInput, NotPermitted
from sessions_app.core.priorities import unfolded
from sessions_app.core.retry_changes import RUN_FIELDS, Changes, merged_changes
from sessions_app.core.time_limits import TimeLimits, above, is_above
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.locks.priority_classes import Named, ranks_allowed
from sessions_app.models import PriorityClass, Queue, Session
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

    A fixed number of statements, and none without changes.
    """
    if not changes or not retries:
        return {retry.parent.id: retry for retry in retries}, {}
    runs = not RUN_FIELDS.isdisjoint(changes)
    secrets = _secrets(retries) if runs else {}
    asking = user_named(by) if secrets or "secret_environ" in changes else None
    classes = _foreign_classes(retries, by) if runs else {}
    queues = _time_limits(retries) if "batch_timeout" in changes else {}
    made: dict[UUID, Retry] = {}
    refused: dict[UUID, DomainError] = {}
    for retry in retries:
        parent = retry.parent
        try:
            _check_time(changes, queues.get(parent.queue_id))
            _check_class(classes.get(parent.id, ""), by)
            parts = changed_secrets(secrets.get(parent.id, NONE), changes, asking)
            wanted = _merged(retry.changes or {}, changes, parts)
            made[parent.id] = replace(
                retry, changes=_with_policy(retry, wanted, scopes[parent.project_id])
            )
        except (InvalidInput, NotPermitted) as error:
            refused[parent.id] = error
    return made, refused


def _foreign_classes(retries: Sequence[Retry], by: str) -> dict[UUID, str]:
    """Return the priority classes that `by` may not name, of the chains that others own.

    Three statements, and none if all chains have the default class.
    """
    ranks = {each.parent.id: unfolded(each.parent.priority).rank for each in retries}
    ranked = {key: rank for key, rank in ranks.items() if rank}
    if not ranked:
        return {}
    names = dict(PriorityClass.objects.values_list("value", "name"))
    owners = dict(Session.objects.filter(pk__in=ranked).values_list("pk", "owner__username"))
    others = [e.parent for e in retries if e.parent.id in ranked and owners[e.parent.id] != by]
    asking = user_named(by) or 0
    named = {
        each.id: Named(each.project_id, asking, names[ranked[each.id]])
        for each in others
        if ranked[each.id] in names
    }
    allowed = ranks_allowed(set(named.values()))
    return {key: each.name for key, each in named.items() if each not in allowed}


def _check_class(name: str, by: str) -> None:
    """Raise `NotPermitted` for a class that `by` may not name: its rank is for another program."""
    if name:
        raise NotPermitted(
            f"the chain has the priority class {name}, which {by} may not name here: it can only "
            "be retried as it is, without changes of what runs"
        )


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
