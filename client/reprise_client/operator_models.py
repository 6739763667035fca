"""What operators set, as the API answers it: defaults, switches, quotas, policies, queues."""

from datetime import datetime
from typing import Any

from pydantic import Field

from reprise_client.models import Answer, Versioned


class EffectiveField(Answer):
    """A value of the merge of all layers, and the `layer` that it comes from."""

    value: Any = None
    layer: str = ""


class RetryDefaults(Versioned):
    """One layer's inline policy and bounds; absent fields inherit.

    `scope` is `cluster`, a domain, or `domain/project`. `effective` and `effective_bounds` are
    there if the merge was asked for; `updated_at` None: the layer has never said anything.
    """

    scope: str = ""
    policy: dict[str, Any] = Field(default_factory=dict)
    bounds: dict[str, Any] = Field(default_factory=dict)
    updated_at: datetime | None = None
    effective: dict[str, EffectiveField] = Field(default_factory=dict)
    effective_bounds: dict[str, EffectiveField] = Field(default_factory=dict)


class QuotaStanding(Answer):
    """A limit that holds in a scope, whose it is, and what is in use of it, as quantities."""

    scope: str
    name: str
    limit: str
    used: str


class Quotas(Answer):
    """The limits of a project or a domain; `usage` has those of a project's domain, too."""

    scope: str
    sessions: int | None = None
    pending_sessions: int | None = None
    resources: dict[str, str] = Field(default_factory=dict)
    usage: list[QuotaStanding] = Field(default_factory=list)


class RetrySettings(Versioned):
    """One layer's switch (`on`, `paused`, `off`); the cluster's has its limits, too.

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
    """What names a policy: addresses of queues, and whether it is the cluster's default."""

    queues: list[str] = Field(default_factory=list)
    default: bool = False


class PolicyStatus(Answer):
    """What the server adds to a policy's document."""

    revision: int = 0
    created_at: datetime | None = None
    created_by: str = ""
    archived_at: datetime | None = None
    warnings: list[str] = Field(default_factory=list)
    used_by: PolicyUses = Field(default_factory=PolicyUses)


class NamedRetryPolicy(Versioned):
    """A named policy: its document, and a `status` that is no part of what it says."""

    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: PolicyStatus = Field(default_factory=PolicyStatus)


class PolicyRevision(Answer):
    """What a policy said from one edit to the next."""

    revision: int
    created_at: datetime | None = None
    created_by: str = ""
    document: dict[str, Any] = Field(default_factory=dict)


class FailureCategory(Versioned):
    """An operator's name for failures that match; lower positions are tried first."""

    name: str
    position: int = 0
    matchers: list[dict[str, Any]] = Field(default_factory=list)
    created_at: datetime | None = None
    updated_at: datetime | None = None


class QueueUsage(Answer):
    """What a queue holds, and its priorities; a share is of the whole pool."""

    used: dict[str, str] = Field(default_factory=dict)
    share: float = 0.0
    current_priority: float = 0.0
    effective_priority: float = 0.0
    computed_at: datetime | None = None


class Queue(Versioned):
    """A queue of a project (`domain/name`); a lower factor is more important."""

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
        """`domain/project/name`."""
        return f"{self.project}/{self.name}"


class ExecutorNode(Answer):
    """A node as its executor last told of it; amounts are Kubernetes quantities."""

    name: str
    allocatable: dict[str, Any] = Field(default_factory=dict)
    free: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, Any]] = Field(default_factory=list)


class ProjectTrouble(Answer):
    """What keeps an executor from the sessions of one project."""

    project: str
    trouble: str = ""


class Executor(Answer):
    """Who runs sessions beside one cluster; no `projects` means that it serves all.

    `health` is `alive`, `late`, `silent` or `never_heard`, `heartbeat_age` seconds; `trouble` is
    why it can start nothing at present, "" if nothing is wrong, and `project_troubles` why it can
    start nothing of some projects of which something waits. A list leaves out the `nodes`;
    `token` is there in the answer that made it, and never again.
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
    """What one call of a drain did: runs `asked` to stop, leases `returned` to their queues; and of
    what is `left`, how many are `kept`: never retried, they run on to their own end."""

    name: str
    asked: int = 0
    returned: int = 0
    left: int = 0
    kept: int = 0


class ExecutorToken(Answer):
    """The only token of an executor, told this once."""

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
