"""Reads of named policies, queues and categories that every door shares."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import F, Q, QuerySet

from retry.policies.documents import PolicyDocument
from retry.policies.doubts import document_doubts
from retry.policies.inline import STORED
from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.core.errors import NotFound
from sessions_app.models import (
    FailureCategory,
    Membership,
    Project,
    Queue,
    RetryDecision,
    RetryPolicy,
    RetryPolicyRevision,
)


def policies_visible(actor: Actor) -> QuerySet[RetryPolicy]:
    """Return the policies in reach of what the actor may see, archived ones included."""
    user = require_user(actor)
    policies = RetryPolicy.objects.select_related("domain", "project__domain")
    if actor.is_cluster_admin:
        return policies
    projects = actor.projects()
    visible = Q(domain=None, project=None) | Q(project__in=projects.values("pk"))
    visible |= Q(domain__in=projects.values("domain"))
    if actor.only_project_id is None:
        visible |= Q(domain__in=Membership.objects.filter(user=user).values("domain"))
    return policies.filter(visible)


def policies_of(
    policies: QuerySet[RetryPolicy], domain: str | None, project: str | None
) -> QuerySet[RetryPolicy]:
    """Return the policies of a scope: a project of a domain, the domain, or the cluster."""
    if project is not None:
        return policies.filter(project__name=project, project__domain__name=domain)
    if domain is not None:
        return policies.filter(domain__name=domain)
    return policies.filter(domain=None, project=None)


def policy_get(actor: Actor, name: str, domain: str | None, project: str | None) -> RetryPolicy:
    """Return the policy of exactly this scope. Raises `NotFound`."""
    found = policies_of(policies_visible(actor), domain, project).filter(name=name).first()
    if found is None:
        raise NotFound(f"no retry policy {name} there")
    return found


def queues_visible(actor: Actor) -> QuerySet[Queue]:
    """Return the queues of the projects that the actor may see, with their usage."""
    require_user(actor)
    queues = Queue.objects.select_related("project__domain", "usage")
    if actor.is_cluster_admin:
        return queues
    return queues.filter(project__in=actor.projects().values("pk"))


def queue_get(project: Project, name: str) -> Queue:
    """Return a queue of a project that the actor may see, with its usage. Raises `NotFound`."""
    found = Queue.objects.select_related("usage").filter(project=project, name=name).first()
    if found is None:
        raise NotFound(f"no queue {project.address}/{name}")
    found.project = project
    return found


def category_get(actor: Actor, name: str, action: Action) -> FailureCategory:
    """Return a failure category by its name. Raises `NotFound`, `NotPermitted`."""
    authorize(actor, action)
    return category_named(name)


def category_named(name: str) -> FailureCategory:
    """A failure category by its name, for who may read them; raises `NotFound`."""
    found = FailureCategory.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"no failure category {name}")
    return found


def categories_listed(actor: Actor) -> QuerySet[FailureCategory]:
    """Return the failure categories; raises `NotPermitted`."""
    authorize(actor, Action.CATEGORY_READ)
    return FailureCategory.objects.all()


def queue_stored(project: Project, name: str) -> Queue | None:
    """Return a queue of a project that the actor may see, as it is stored, or None."""
    return Queue.objects.filter(project=project, name=name).first()


def queues_naming(policy: RetryPolicy) -> QuerySet[Queue]:
    """Return all queues that name a policy, or another one of its name."""
    queues = Queue.objects.filter(retry_policies__has_key=policy.name)
    return queues.select_related("project__domain")


def policies_in_scope(project: Project | None) -> QuerySet[RetryPolicy]:
    """Return what can be named within a project, or (None) as the cluster's default; by name."""
    in_scope = Q(domain=None, project=None)
    if project is not None:
        in_scope |= Q(domain=project.domain_id) | Q(project=project)
    return RetryPolicy.objects.filter(in_scope, archived_at=None).order_by("name")


def revisions_of(policy: RetryPolicy) -> QuerySet[RetryPolicyRevision]:
    """Return all that a policy has said."""
    return RetryPolicyRevision.objects.filter(policy=policy)


def revisions_used(project: Project, decision: RetryDecision) -> QuerySet[RetryPolicyRevision]:
    """Return the revisions that a decision about a session of a project was made from."""
    in_scope = Q(policy__domain=None, policy__project=None) | Q(policy__project=project)
    in_scope |= Q(policy__domain=project.domain_id)
    same = Q()
    for name, number in decision.policy_revisions.items():
        same |= Q(policy__name=name, revision=number)
    # One of the same name that was made later is another policy.
    return RetryPolicyRevision.objects.filter(in_scope, same, created_at__lte=decision.decided_at)


def revisions_current(policies: Collection[RetryPolicy]) -> dict[int, RetryPolicyRevision]:
    """Return the current revisions of the policies, by the policy's id."""
    current = RetryPolicyRevision.objects.filter(
        policy__in=policies, revision=F("policy__revision")
    )
    return {revision.policy_id: revision for revision in current}


@dataclass(frozen=True, slots=True)
class Reading:
    """A revision's document, with warnings about a valid but doubtful content."""

    document: PolicyDocument
    warnings: tuple[str, ...]
    """Such as rules that are never reached; each begins with the path of its field."""


def reading_of(revision: RetryPolicyRevision) -> Reading:
    """Return the content of a revision."""
    return _read(json.dumps(revision.document))


@lru_cache(maxsize=1024)
def _read(text: str) -> Reading:
    document = PolicyDocument.model_validate_json(text, context=STORED)
    return Reading(document, document_doubts(document))
