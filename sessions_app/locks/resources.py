"""Rows of what people configure, each locked while it is changed or deleted.

Order: a schedule before all that its chains need, a project's queues before the project, a queue
before the policies that it names, settings after the policy that they name. Who names a policy
shares it (`configuration.py`), and who locks one here locks no queue after it, so that nobody waits
in a circle. `lock_record` comes last.
A row that is about to be deleted is locked `FOR UPDATE`, which waits for all that refers to it;
one that is about to change lets others refer to it meanwhile (`no_key`).

Not imported by the package itself: connections take locks before there are models.
"""

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from sessions_app.models import (
    Domain,
    FailureCategory,
    PreparedAction,
    PriorityClass,
    Project,
    Queue,
    RetryDefaults,
    RetryPolicy,
    RetrySettings,
    Schedule,
    WebhookEndpoint,
)

_Record = TypeVar("_Record", bound=models.Model)


def lock_record(record: _Record) -> _Record | None:
    """Lock the row of any record of the configuration that is about to be saved or deleted.

    Return it as it is stored, or None. What else a service locks of its kind comes first.
    """
    if not record.pk:
        return None
    rows = type(record)._base_manager.filter(pk=record.pk)
    return rows.select_for_update(no_key=True, of=("self",)).first()


def lock_prepared_action(action_id: UUID, user_id: int) -> PreparedAction | None:
    """Lock an action of somebody before the chains on which it acts, so that it acts once."""
    rows = PreparedAction.objects.select_for_update(no_key=True, of=("self",))
    return rows.filter(pk=action_id, user_id=user_id).first()


def lock_domain(domain_id: int) -> Domain | None:
    """Keep a domain while something is made in it: before the project and its queue."""
    return Domain.objects.select_for_update(no_key=True).filter(pk=domain_id).first()


def lock_domain_named(name: str) -> Domain:
    """Keep a domain that is there, as `lock_domain` does."""
    return Domain.objects.select_for_update(no_key=True).get(name=name)


def lock_domain_to_delete(domain_id: int) -> bool:
    """Lock a domain before its policies; return whether it is there.

    Who makes a project in it holds it until the project is there.
    """
    return Domain.objects.select_for_update(of=("self",)).filter(pk=domain_id).exists()


def lock_queues_to_delete(project_id: int) -> set[int]:
    """Lock all queues of a project, by key, before the project itself: as who submits does."""
    queues = Queue.objects.filter(project=project_id)
    return {each.pk for each in queues.select_for_update(of=("self",)).order_by("pk")}


def lock_project_to_delete(project_id: int) -> bool:
    """Lock a project whose queues are locked; return whether it is there."""
    return Project.objects.select_for_update(of=("self",)).filter(pk=project_id).exists()


def lock_queue(queue_id: int) -> Queue | None:
    """Lock a queue to compare it with what its editor has read; its policies come after it."""
    stored = Queue.objects.select_for_update(no_key=True, of=("self",))
    return stored.filter(pk=queue_id).first()


def lock_queue_to_delete(queue_id: int) -> Queue | None:
    """Lock a queue alone. Who submits to it holds it until the session is there."""
    return Queue.objects.select_for_update(of=("self",)).filter(pk=queue_id).first()


def lock_default_queues(queue: Queue) -> list[int]:
    """Lock the other default queues of a queue's project, before the queue itself is saved."""
    others = Queue.objects.select_for_update(no_key=True, of=("self",)).exclude(pk=queue.pk)
    return [other.pk for other in others.filter(project=queue.project, is_default=True)]


def lock_policy(name: str, scope: dict[str, Any]) -> RetryPolicy | None:
    """Lock a policy of a scope. Who may make it has locked its name before."""
    policies = RetryPolicy.objects.filter(**scope, name=name)
    return policies.select_for_update(no_key=True, of=("self",)).first()


def lock_policy_to_delete(policy_id: int) -> RetryPolicy | None:
    """Lock a policy, after its name if that is locked. Who submits a chain with it holds it."""
    return RetryPolicy.objects.select_for_update(of=("self",)).filter(pk=policy_id).first()


def lock_category(name: str) -> FailureCategory | None:
    """Lock a failure category, and nothing else."""
    return FailureCategory.objects.select_for_update().filter(name=name).first()


def lock_priority_class(name: str) -> PriorityClass | None:
    """Lock a priority class, and nothing else."""
    return PriorityClass.objects.select_for_update().filter(name=name).first()


def lock_defaults(scope: dict[str, Any]) -> RetryDefaults | None:
    """Lock the defaults of a scope, and nothing else."""
    return RetryDefaults.objects.select_for_update(no_key=True).filter(**scope).first()


def lock_or_make_defaults(
    scope: dict[str, Any], values: dict[str, Any]
) -> tuple[RetryDefaults, bool]:
    """Lock the defaults of a scope, and nothing else; return them and whether they are new."""
    rows = RetryDefaults.objects.select_for_update(no_key=True)
    return rows.get_or_create(**scope, defaults=values)


def lock_or_make_settings(
    scope: dict[str, Any], values: dict[str, Any]
) -> tuple[RetrySettings, bool]:
    """Lock the settings of a scope, after the policy that they name; return whether it is new."""
    rows = RetrySettings.objects.select_for_update(no_key=True)
    return rows.get_or_create(**scope, defaults=values)


def lock_webhook(endpoint_id: UUID) -> WebhookEndpoint | None:
    """Lock a webhook, after the outbox (`lock_webhooks`) if what waits is moved, too."""
    rows = WebhookEndpoint.objects.select_for_update(no_key=True, of=("self",))
    return rows.filter(pk=endpoint_id).first()


def claim_schedules(now: datetime, limit: int) -> list[Schedule]:
    """Lock schedules that are due, before the queues of their chains; others' claims are skipped.

    Longest overdue first.
    """
    due = Schedule.objects.filter(paused_at=None, due_at__lte=now).order_by("due_at", "pk")
    claimed = due.select_for_update(no_key=True, of=("self",), skip_locked=True)
    return list(claimed.select_related("project__domain")[:limit])


def lock_schedule(schedule_id: UUID) -> Schedule | None:
    """Lock a schedule, before the queue of a chain that is made by hand."""
    rows = Schedule.objects.select_for_update(no_key=True, of=("self",))
    return rows.select_related("project__domain").filter(pk=schedule_id).first()


def lock_schedules_to_delete(project_id: int) -> None:
    """Lock all schedules of a project, before its queues: as who fires one does."""
    rows = Schedule.objects.filter(project=project_id).order_by("pk")
    list(rows.select_for_update(of=("self",)).values_list("pk"))
