"""Answers about what operators configure: defaults, switches, quotas, policies, queues."""

from datetime import datetime
from typing import Any

from pydantic import Field

from reprise_client.models import Answer, Versioned


class EffectiveField(Answer):
    """A merged value, and the `layer` that sets it."""

    value: Any = None
    layer: str = ""


class RetryDefaults(Versioned):
    """The inline policy and the bounds of one layer. Absent fields inherit.

    `scope` is `cluster`, a domain, or `domain/project`. `effective` and `effective_bounds` are set
    if the merge was asked for. `updated_at` is None if the layer was never set.
    """

    scope: str = ""
    policy: dict[str, Any] = Field(default_factory=dict)
    bounds: dict[str, Any] = Field(default_factory=dict)
    updated_at: datetime | None = None
    effective: dict[str, EffectiveField] = Field(default_factory=dict)
    effective_bounds: dict[str, EffectiveField] = Field(default_factory=dict)


class QuotaStanding(Answer):
    """A limit that applies in a scope, the scope that sets it, and its present use, as
    quantities."""

    scope: str
    name: str
    limit: str
    used: str


class Quotas(Answer):
    """The limits of a project or a domain. `usage` also has those of a project's domain."""

    scope: str
    sessions: int | None = None
    pending_sessions: int | None = None
    resources: dict[str, str] = Field(default_factory=dict)
    usage: list[QuotaStanding] = Field(default_factory=list)


class RetrySettings(Versioned):
    """The switch of one layer (`on`, `paused`, `off`); the cluster's also has limits.

    `effective_mode` is the strictest of this switch and those above it.
    """

    scope: str = ""
    mode: str = "on"
    effective_mode: str = "on"
    global_max_retries: int | None = None
    default_policy: str | None = None
    retries_per_minute: int | None = None
    queue_retries_per_minute: int | None = None


class PolicyUses(Answer):
    """The uses of a policy: addresses of queues, and whether it is the cluster's default."""

    queues: list[str] = Field(default_factory=list)
    default: bool = False


class PolicyStatus(Answer):
    """The fields that the server adds to a policy's document."""

    revision: int = 0
    created_at: datetime | None = None
    created_by: str = ""
    archived_at: datetime | None = None
    warnings: list[str] = Field(default_factory=list)
    used_by: PolicyUses = Field(default_factory=PolicyUses)


class NamedRetryPolicy(Versioned):
    """A named policy: its document, and a `status` that is not part of the document."""

    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: PolicyStatus = Field(default_factory=PolicyStatus)


class PolicyRevision(Answer):
    """The content of a policy from one edit to the next."""

    revision: int
    created_at: datetime | None = None
    created_by: str = ""
    document: dict[str, Any] = Field(default_factory=dict)


class FailureCategory(Versioned):
    """A named kind of failures, with its matchers. Lower positions are tried first."""

    name: str
    position: int = 0
    matchers: list[dict[str, Any]] = Field(default_factory=list)
    created_at: datetime | None = None
    updated_at: datetime | None = None


class QueueUsage(Answer):
    """The resources that a queue holds, and its priorities.

    `share` is its part of the whole pool.
    """

    used: dict[str, str] = Field(default_factory=dict)
    share: float = 0.0
    current_priority: float = 0.0
    effective_priority: float = 0.0
    computed_at: datetime | None = None


class Queue(Versioned):
    """A queue of a project (`domain/name`). A lower factor is more important."""

    project: str
    name: str
    is_default: bool = False
    priority_factor: float = 1.0
    resource_limits: dict[str, str] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    cordoned: bool = False
    cordon_reason: str = ""
    created_at: datetime | None = None
    usage: QueueUsage | None = None

    @property
    def address(self) -> str:
        """Return `domain/project/name`."""
        return f"{self.project}/{self.name}"


class ExecutorNode(Answer):
    """A node as its executor last reported it. Amounts are Kubernetes quantities."""

    name: str
    allocatable: dict[str, Any] = Field(default_factory=dict)
    free: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, Any]] = Field(default_factory=list)


class ProjectTrouble(Answer):
    """The reason why an executor cannot start sessions of one project."""

    project: str
    trouble: str = ""


class Executor(Answer):
    """An executor beside one cluster. Without `projects` it serves all.

    `health` is `alive`, `late`, `silent` or `never_heard`; `heartbeat_age` is in seconds. `trouble`
    says why it can start nothing at present, "" if it can. `project_troubles` say the same for
    single projects with waiting sessions. Lists leave out the `nodes`. Only the answer that created
    it has the `token`.
    """

    name: str
    health: str = ""
    heartbeat_age: float | None = None
    last_seen_at: datetime | None = None
    trouble: str = ""
    project_troubles: list[ProjectTrouble] = Field(default_factory=list)
    incarnation: int = 0
    driver: str = ""
    max_sessions: int = 0
    lease_count: int = 0
    node_count: int = 0
    projects: list[str] = Field(default_factory=list)
    unconfirmed_after: float | None = None
    cordoned: bool = False
    cordon_reason: str = ""
    draining_since: datetime | None = None
    created_at: datetime | None = None
    nodes: list[ExecutorNode] = Field(default_factory=list)
    token: str = ""


class Drained(Answer):
    """The result of one call of a drain.

    `asked` runs were told to stop, `returned` leases went back to their queues, and `left` are
    left. `kept` of these are never retried and run to their own end.
    """

    name: str
    asked: int = 0
    returned: int = 0
    left: int = 0
    kept: int = 0


class ExecutorToken(Answer):
    """The only token of an executor, shown only in this answer."""

    name: str
    token: str


class ExecutorLease(Answer):
    """The right of an executor to run a session."""

    session_id: str
    session_name: str = ""
    project: str = ""
    queue: str = ""
    status: str = ""
    node: str = ""
    fencing_token: int = 0
    granted_at: datetime | None = None
    accepted: bool = False
    lost_at: datetime | None = None
    run_deadline: datetime | None = None
