"""Renders policies, categories and queues."""

from collections.abc import Sequence
from typing import Any

from interfaces.render.by_shape import rendered
from interfaces.shapes import policy_shapes as shapes
from retry.policies.documents import PolicyDocument
from sessions_app.authorization import Actor
from sessions_app.in_force.policy_uses import PolicyUses, policies_uses
from sessions_app.models import (
    FailureCategory,
    PriorityClass,
    Queue,
    RetryPolicy,
    RetryPolicyRevision,
)
from sessions_app.selectors.policies import queues_visible, reading_of, revisions_current
from sessions_app.selectors.priority_classes import addresses_seen


def policies_json(
    actor: Actor, policies: Sequence[RetryPolicy], ignored: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return each policy as its document and a `status`, with the using queues that the caller may
    see.

    `ignored` are warnings about fields that were sent and not kept.
    """
    revisions = revisions_current(policies)
    uses = policies_uses(policies, queues_visible(actor)) if policies else {}
    return [
        _policy_json(policy, revisions[policy.pk], uses[policy.pk], ignored)
        for policy in policies
        if policy.pk in revisions
    ]


def _policy_json(
    policy: RetryPolicy, revision: RetryPolicyRevision, uses: PolicyUses, ignored: Sequence[str]
) -> dict[str, Any]:
    reading = reading_of(revision)
    status = {
        "revision": policy.revision,
        "created_at": revision.created_at,
        "created_by": revision.created_by,
        "archived_at": policy.archived_at,
        "warnings": [*ignored, *reading.warnings],
        "used_by": uses.to_json(),
    }
    return {**_document_json(reading.document), "status": status}


def revision_json(revision: RetryPolicyRevision) -> dict[str, Any]:
    """Return one revision of a policy."""
    document = _document_json(reading_of(revision).document)
    return rendered(shapes.PolicyRevision, revision, document=document)


def _document_json(document: PolicyDocument) -> dict[str, Any]:
    """Return the document with its keys in the usual order, which the database does not keep."""
    values = document.document()
    if rules := values["spec"].get("rules"):
        first = ("name", "action")
        values["spec"]["rules"] = [
            {key: rule[key] for key in first if key in rule} | rule for rule in rules
        ]
    return values


def category_json(category: FailureCategory) -> dict[str, Any]:
    """Return a failure category."""
    return rendered(shapes.Category, category)


def priority_classes_json(actor: Actor, rows: Sequence[PriorityClass]) -> list[dict[str, Any]]:
    """Return priority classes; of those who may name them only what the actor may see."""
    seen = addresses_seen(actor, rows)
    return [
        rendered(
            shapes.PriorityClass,
            row,
            domains=[each for each in row.domains if each in seen],
            projects=[each for each in row.projects if each in seen],
        )
        for row in rows
    ]


def queue_json(queue: Queue) -> dict[str, Any]:
    """Return a queue, which was read with its project and domain.

    `usage` is null while the queue holds nothing and has no past usage.
    """
    return rendered(shapes.Queue, queue, project=queue.project.address, usage=_usage_json(queue))


def _usage_json(queue: Queue) -> dict[str, Any] | None:
    # The usage is a record of the scheduler, which depends on queues and not the other way round.
    usage = getattr(queue, "usage", None)
    if usage is None:
        return None
    effective = queue.priority_factor * usage.current_priority
    return rendered(shapes.QueueUsage, usage, share=usage.cost, effective_priority=effective)
