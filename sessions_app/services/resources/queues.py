"""Creates, changes and deletes queues."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from base.podspec.resources import amounts_check
from sessions_app import wakeups
from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.core.time_limits import time_limits_check
from sessions_app.core.versions import Expected, version_of
from sessions_app.locks.resources import (
    lock_default_queues,
    lock_queue,
    lock_queue_to_delete,
)
from sessions_app.models import Queue, Session
from sessions_app.services.resources.policy_names import FIELD, policies_require
from sessions_app.services.write.records import cordon_check, record_delete, record_save


def limits_check(limits: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless each limit is an amount of a resource."""
    try:
        amounts_check(limits)
    except ValueError as error:
        raise InvalidInput({"resource_limits": [str(error)]}) from None


VERSIONED = (
    *("is_default", "priority_factor", "resource_limits", "retry_policies"),
    *("cordoned", "cordon_reason", "breaker", "retry_budget", "time_limits"),
)


def queue_version(queue: Queue) -> str:
    """Return the version of the fields that can be changed."""
    return version_of(queue.pk, [getattr(queue, name) for name in VERSIONED])


def queue_save(
    queue: Queue,
    *,
    by: str,
    fields: Collection[str] | None = None,
    expected: Expected | None = None,
) -> None:
    """Save a queue; if it exists and `fields` are given, only those.

    A new default queue replaces the project's old one. Raises `InvalidInput` if the queue is
    cordoned without a reason, has invalid limits, or names policies out of reach. Raises `Conflict`
    if the project has another queue of this name, and `Outdated` if the stored queue is not
    `expected`.
    """
    cordon_check(cordoned=queue.cordoned, reason=queue.cordon_reason)
    limits_check(queue.resource_limits)
    time_limits_check(queue.time_limits)
    try:
        with transaction.atomic():
            if expected is not None:
                found = lock_queue(queue.pk)
                expected.check(queue_version(found) if found else None)
            if fields is None or FIELD in fields:
                queue.retry_policies = policies_require(queue.retry_policies, project=queue.project)
            if queue.is_default:
                _unset_default(queue, by)
            record_save(queue, by=by, fields=fields)
            if not queue.cordoned:
                wakeups.work_after_commit()
            if fields is None or "retry_budget" in fields:
                wakeups.sweep_after_commit()
    except IntegrityError as error:
        raise _refusal(error, queue) from error


def _refusal(error: IntegrityError, queue: Queue) -> Exception:
    broken = str(error)
    if "queue_name_unique" in broken:
        why = f"project {queue.project.address} has a queue {queue.name!r} already"
        return Conflict(why, errors={"name": ["is taken"]})
    if "queue_one_default" in broken:
        return Conflict("another queue was made the default at the same time; try again")
    return error


def queue_delete(queue: Queue, *, by: str, expected: Expected | None = None) -> None:
    """Delete a queue. Raises `Conflict` while it has sessions or is the project's default.

    Raises `Outdated` if it is not `expected`.
    """
    with transaction.atomic():
        locked = lock_queue_to_delete(queue.pk)
        if locked is None:
            raise NotFound(f"no queue {queue.name}")
        if expected is not None:
            expected.check(queue_version(locked))
        if locked.is_default:
            raise Conflict("it is the project's default queue: make another the default first")
        if Session.objects.filter(queue=locked).exists():
            raise Conflict("the queue has sessions: cordon it, and delete it when they are gone")
        record_delete(locked, by=by)


def _unset_default(queue: Queue, by: str) -> None:
    keys = lock_default_queues(queue)
    if keys:
        with audited(by=by):
            Queue.objects.filter(pk__in=keys).update(is_default=False)
