"""The shapes of policies, categories and queues, for the OpenAPI document."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from interfaces.shapes.pages import Page
from retry.breakers import BreakerRule
from retry.policies.categories import CategoryMatcher
from retry.policies.documents import PolicyDocument
from retry.policies.shared_budget import SharedBudget


class PolicyBody(PolicyDocument):
    """A policy document. A `status`, as `GET` returns it, is ignored."""

    status: Any = None


class PolicyUses(BaseModel):
    """The uses of a policy: the queues that you may see, and whether it is the default."""

    queues: list[str]
    default: bool


class PolicyStatus(BaseModel):
    """The status that Reprise adds to a policy document."""

    revision: int
    created_at: datetime
    created_by: str
    archived_at: datetime | None
    warnings: list[str]
    used_by: PolicyUses


class Policy(BaseModel):
    """A policy: its document and its `status`."""

    apiVersion: str  # noqa: N815  # the documents' own spelling
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: PolicyStatus


class PolicyPage(Page[Policy]):
    """Policies, oldest first."""


class PolicyRevision(BaseModel):
    """A revision of a policy: its content between two edits."""

    revision: int
    created_at: datetime
    created_by: str
    document: dict[str, Any]


class RevisionPage(Page[PolicyRevision]):
    """Revisions, newest first."""


class PolicyDeleted(BaseModel):
    """`deleted`, or `archived` if unfinished chains still use the policy."""

    outcome: str


class Category(BaseModel):
    """A failure category; lower positions are tried first."""

    name: str
    position: int
    matchers: list[CategoryMatcher] = Field(min_length=1)
    created_at: datetime
    updated_at: datetime


class CategoryPage(Page[Category]):
    """Failure categories, in the order in which they are tried."""


class PriorityClass(BaseModel):
    """A priority class: sessions of a higher value go first within their queue."""

    name: str
    value: int
    """Sessions have it, so it never changes. The class `default` has 0."""
    preemptible: bool
    """Whether its running sessions may have to make room for others."""
    may_preempt: bool
    """Whether its waiting sessions may take the room of lower classes."""
    protected_for: float
    """Seconds of running in which a session makes no room."""
    domains: list[str]
    """The domains whose projects may name it."""
    projects: list[str]
    """The projects that may name it. If both are empty, only cluster admins may; the class
    `default` is for all."""
    created_at: datetime
    updated_at: datetime


class PriorityClassPage(Page[PriorityClass]):
    """Priority classes, lowest value first."""


class QueueUsage(BaseModel):
    """The usage of a queue when it was last computed. The priority decays toward the current
    share."""

    used: dict[str, str]
    """By resource; `sessions` is one of them."""
    share: float
    """The part of the pool that it holds, of the resource of which it holds most."""
    current_priority: float
    effective_priority: float
    """The current priority times the factor.

    It decides which queue gets the next session if both are near their shares.
    """
    computed_at: datetime


class Queue(BaseModel):
    """A queue of a project. A lower factor means a higher priority."""

    project: str
    name: str
    is_default: bool
    priority_factor: float
    resource_limits: dict[str, str]
    time_limits: dict[str, dict[str, float]]
    """By the name of a time of sessions: its `default` and its `max`, in seconds."""
    retry_policies: list[str]
    breaker: BreakerRule | None
    """When retries of a failure wait because many chains of the queue fail with it; null: as the
    project and the cluster say."""
    retry_budget: SharedBudget | None
    """The most automatic retries of the queue within a window."""
    cordoned: bool
    cordon_reason: str
    created_at: datetime
    usage: QueueUsage | None


class QueuePage(Page[Queue]):
    """Queues, oldest first."""
