"""The server's answers as typed values. `make schema` writes this file.

`docs/openapi.yaml` says which fields an answer has, `tools/client_models.toml` what stands for one
that is missing. What models can do is in `answers.py`. Times are aware datetimes, durations
seconds. A field with a word, such as a `Status`, is plain text: a newer server may send words that
are not listed here.
"""
# ruff: noqa: N815  # the spelling of the document

from datetime import datetime
from typing import Any

from pydantic import Field

from reprise_client.answers import (
    Addressed,
    Answer,
    ChainMember,
    OfDomain,
    Placed,
    Refusable,
    Versioned,
    Windowed,
)

DecisionState = str
"""One of `scheduled`, `held`, `dispatched`, `cancelled`, `final`."""

Health = str
"""One of `alive`, `late`, `silent`, `never_heard`."""

Reason = str
"""One of `quota`, `queue_cordoned`, `project_trouble`, `executor_trouble`, `executor_cordoned`,
`no_executor`, `no_fit`, `queue_limit`, `avoided`, `capacity`, `position`.
"""

RetryCause = str
"""One of `user_cancelled`, `validation_error`, `quota_exceeded`, `preempted`, `evicted`,
`limit_exceeded`, `agent_transient`, `deadline_exceeded`, `oom_killed`, `image_pull_failure`,
`start_failure`, `scheduler_timeout`, `kernel_nonzero_exit`, `unknown`.
"""

RetryReason = str
"""One of `rule_retry`, `inline_retry`, `default_retry`, `not_batch`, `never_retried`,
`retries_disabled`, `workload_said_no`, `global_limit`, `rule_fail`, `rule_limit`,
`cause_not_eligible`, `exit_code_excluded`, `preemption_budget`, `max_retries`, `default_fail`,
`default_limit`, `no_policy`, `chain_deadline`.
"""

RetryStateWord = str
"""One of `none`, `scheduled`, `held`, `retried`, `succeeded`, `exhausted`, `not_retried`,
`cancelled`.
"""

Status = str
"""One of `PENDING`, `SCHEDULED`, `PREPARING`, `PULLING`, `PREPARED`, `CREATING`, `RUNNING`,
`TERMINATING`, `TERMINATED`, `ERROR`, `CANCELLED`.
"""


class Counted(Answer):
    """A count. If `more` is true, it is a lower bound."""

    value: int = 0
    more: bool = False


class EffectiveField(Answer):
    """A value of the merged policy, and the layer that sets it."""

    value: Any = None
    layer: str = ""


class ProjectTrouble(Answer):
    """The reason why an executor cannot start sessions of one project."""

    project: str
    trouble: str = ""


class Budget(Answer):
    """The usage of one budget of a chain. A null limit means no limit."""

    name: str = ""
    used: int = 0
    limit: int | None = None


class RetryState(Answer):
    """The retry state of a session. `attempt` counts from 0.

    `max_attempts` is the maximum number of attempts of its chain without manual retries; null if it
    is unknown. `summary` is for people: the attempt, counted from 1, and the budget that limits it.
    """

    state: RetryStateWord = "none"
    attempt: int = 0
    max_attempts: int | None = None
    summary: str = ""
    due_at: datetime | None = None
    next_session_id: str | None = None
    reason: RetryReason | None = None
    rule: str | None = None
    budgets: list[Budget] = Field(default_factory=list)


class WhyPending(Answer):
    """Why a session waits, as a code. `pending_reason` explains it in words."""

    reason: Reason = ""
    ahead: int = 0


class Session(ChainMember):
    """A session with all details.

    With `warnings`: The submitted session.
    """

    id: str
    name: str = ""
    project: str = ""
    queue: str = ""
    job_set: str = ""
    creation_id: str = ""
    session_type: str = "batch"
    priority: int = 0
    owner: str | None = None
    status: Status
    status_message: str = ""
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    accepted_at: datetime | None = None
    started_at: datetime | None = None
    terminating_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    node: str | None = None
    executor: str | None = None
    parent_session_id: str | None = None
    root_session_id: str = ""
    retry_count: int = 0
    max_retries: int = 0
    retry_policy: dict[str, Any] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    retry_cause: RetryCause | None = None
    failure_category: str | None = None
    retry_counters: dict[str, int] = Field(default_factory=dict)
    chain_count: int = 0
    chain_url: str = ""
    retry_state: RetryState = Field(default_factory=RetryState)
    retry_chain: list[str] = Field(default_factory=list)
    image: str | None = None
    command: list[str] = Field(default_factory=list)
    environ: dict[str, str | None] = Field(default_factory=dict)
    secret_environ: list[str] = Field(default_factory=list)
    resources: dict[str, Any] = Field(default_factory=dict)
    mounts: list[dict[str, Any]] = Field(default_factory=list)
    ports: list[str] = Field(default_factory=list)
    pod_spec: dict[str, Any] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    cluster_size: int = 1
    batch_timeout: float | None = None
    scheduling_timeout: float | None = None
    termination_grace_period: float | None = None
    cancel_requested_at: datetime | None = None
    preempt_requested_at: datetime | None = None
    pending_reason: str | None = None
    why_pending: WhyPending | None = None
    warnings: list[str] = Field(default_factory=list)


class Attempt(Answer):
    """One attempt of a chain; `attempt` counts from 0."""

    id: str
    attempt: int = 0
    status: Status = ""
    cause: RetryCause | None = None
    failure_category: str | None = None
    exit_code: int | None = None
    node: str | None = None
    executor: str | None = None
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    retry_state: RetryStateWord = ""
    decision: str | None = None


class Decision(Answer):
    """The decision after a failure, and its reasons. `delay` is in seconds.

    `resources` are those of the next attempt if they differ. `paced`: the retry has a slot under
    the storm limits. `requested_by` is the user who requested a retry by hand that waits for its
    slot.
    """

    session_id: str
    action: str
    reason: str | None = None
    cause: str | None = None
    failure_category: str | None = None
    rule: str | None = None
    paid_by: str | None = None
    used: int | None = None
    limit: int | None = None
    delay: float | None = None
    due_at: datetime | None = None
    state: DecisionState = ""
    avoid_node: str | None = None
    avoid_executor: str | None = None
    resources: dict[str, Any] | None = None
    paced: bool = False
    requested_by: str | None = None
    next_session_id: str | None = None
    dispatched_by: str | None = None
    dispatched_at: datetime | None = None
    decided_at: datetime | None = None
    termination: dict[str, Any] = Field(default_factory=dict)
    policy_revisions: dict[str, Any] = Field(default_factory=dict)
    trace: list[dict[str, Any]] = Field(default_factory=list)
    explanation: list[str] = Field(default_factory=list)


class Event(Answer):
    """An event of a session. A stream of a session continues after an `id`, a stream of a job set
    after a `cursor`.
    """

    id: str | int
    cursor: str = ""
    seq: int = 0
    type: str
    session_id: str = ""
    root_session_id: str = ""
    project: str = ""
    job_set: str = ""
    attempt: int = 0
    time: datetime | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class JobSet(Answer):
    """A job set: sessions of one project (`domain/name`) that were submitted under one name."""

    name: str
    project: str = ""
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None


class BulkOutcome(Answer):
    """The outcome of one item: `created`, `exists` (its `creation_id` was known) or `refused`."""

    outcome: str
    session_id: str | None = None
    problem: dict[str, Any] | None = None
    warnings: list[str] = Field(default_factory=list)


class BulkChange(Refusable):
    """The outcome for one session: `retried`, `scheduled` (for the slot at `due_at`) or `refused`.

    In a dry run `next_session_id` is null.
    """

    session_id: str
    outcome: str
    next_session_id: str | None = None
    due_at: datetime | None = None
    problem: dict[str, Any] | None = None


class BulkChanges(Answer):
    """One outcome for each session, newest first.

    If more sessions match than one call takes, send `next` as `after` in the next call. `remaining`
    is the number of sessions left, counted up to 10,000.
    """

    dry_run: bool = False
    results: list[BulkChange] = Field(default_factory=list)
    next: str | None = None
    remaining: int = 0


class AuditEntry(Answer):
    """An audit entry: who did what, and through which interface (`door`).

    For a change of the configuration, `before` and `after` are the fields that differ. For an
    action on a session or a task both are null, and `data` has the details.
    """

    id: int
    time: datetime
    actor: str
    automatic: bool = False
    door: str | None = None
    via: dict[str, str] = Field(default_factory=dict)
    action: str
    object_type: str
    object_id: str
    project: str | None = None
    domain: str | None = None
    root_session_id: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class Whoami(Answer):
    """The owner of the token."""

    username: str
    cluster_admin: bool = False
    project: str | None = None
    token_name: str = ""
    expires_at: datetime | None = None
    read_only: bool = False


class RetryDefaults(Versioned):
    """The inline policy and the bounds of a scope. Absent fields are inherited.

    `effective` and `effective_bounds` are present with `?effective=true`.
    """

    scope: str = ""
    policy: dict[str, Any] = Field(default_factory=dict)
    bounds: dict[str, Any] = Field(default_factory=dict)
    updated_at: datetime | None = None
    effective: dict[str, EffectiveField] = Field(default_factory=dict)
    effective_bounds: dict[str, EffectiveField] = Field(default_factory=dict)


class RetrySettings(Versioned):
    """The kill switch of a scope, and the one in effect, which includes the scopes above.

    Optional fields exist only for the cluster.
    """

    scope: str = ""
    mode: str = "on"
    effective_mode: str = "on"
    global_max_retries: int | None = None
    default_policy: str | None = None
    retries_per_minute: int | None = None
    queue_retries_per_minute: int | None = None
    updated_at: datetime | None = None


class QuotaStanding(Answer):
    """A quota that applies in a scope: its owner, its limit and its usage, as quantities."""

    scope: str
    name: str
    limit: str
    used: str


class Quotas(Answer):
    """The limits of a scope; null means no limit. `usage` includes the limits of its domain."""

    scope: str
    sessions: int | None = None
    pending_sessions: int | None = None
    resources: dict[str, str] = Field(default_factory=dict)
    usage: list[QuotaStanding] = Field(default_factory=list)


class PolicyUses(Answer):
    """The uses of a policy: the queues that you may see, and whether it is the default."""

    queues: list[str] = Field(default_factory=list)
    default: bool = False


class PolicyStatus(Answer):
    """The status that Reprise adds to a policy document."""

    revision: int = 0
    created_at: datetime | None = None
    created_by: str = ""
    archived_at: datetime | None = None
    warnings: list[str] = Field(default_factory=list)
    used_by: PolicyUses = Field(default_factory=PolicyUses)


class NamedRetryPolicy(Versioned):
    """A policy: its document and its `status`."""

    apiVersion: str = ""
    kind: str = ""
    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: PolicyStatus = Field(default_factory=PolicyStatus)


class PolicyRevision(Answer):
    """A revision of a policy: its content between two edits."""

    revision: int
    created_at: datetime | None = None
    created_by: str = ""
    document: dict[str, Any] = Field(default_factory=dict)


class FailureCategory(Versioned):
    """A failure category; lower positions are tried first."""

    name: str
    position: int = 0
    matchers: list[dict[str, Any]] = Field(default_factory=list)
    created_at: datetime | None = None
    updated_at: datetime | None = None


class QueueUsage(Answer):
    """The usage of a queue when it was last computed. The priority decays toward the current
    share.
    """

    used: dict[str, str] = Field(default_factory=dict)
    share: float = 0.0
    current_priority: float = 0.0
    effective_priority: float = 0.0
    computed_at: datetime | None = None


class Queue(Addressed, Versioned):
    """A queue of a project. A lower factor means a higher priority."""

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


class Webhook(Answer):
    """A webhook: a URL that receives a project's events.

    With `secret`: The answer with the secret, which is shown only once.
    """

    id: str
    project: str
    url: str
    description: str = ""
    event_types: list[str] = Field(default_factory=list)
    paused_at: datetime | None = None
    paused_reason: str = ""
    failures: int = 0
    failing_since: datetime | None = None
    previous_secret_until: datetime | None = None
    created_at: datetime | None = None
    created_by: str = ""
    secret: str = ""


class WebhookDelivery(Answer):
    """An event on its way to a webhook, or a ping."""

    id: int
    message_id: str
    type: str
    event_id: int | None = None
    session_id: str | None = None
    state: str
    attempts: int = 0
    redelivery: bool = False
    created_at: datetime | None = None
    attempted_at: datetime | None = None
    next_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    response_code: int | None = None
    response_excerpt: str = ""
    error: str = ""
    latency_ms: int | None = None


class Redelivered(Answer):
    """The number of deliveries that are sent again."""

    redelivered: int


class Domain(Answer):
    """A domain: a group of projects."""

    name: str
    created_at: datetime | None = None


class Project(OfDomain):
    """A project: one team's part of a domain."""

    domain: str
    name: str
    created_at: datetime | None = None


class Membership(Placed):
    """A user's role in a project (`domain/name`) or in all projects of a domain. One of the two
    is null.
    """

    id: int
    user: str
    role: str
    domain: str | None = None
    project: str | None = None


class Token(Answer):
    """A bearer token of a user or an executor. `prefix` holds its first characters.

    With `token`, `warnings`: A new token. `token` is the secret; it is shown only once.
    """

    prefix: str
    name: str = ""
    user: str | None = None
    executor: str | None = None
    project: str | None = None
    read_only: bool = False
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    made_with: str | None = None
    token: str = ""
    warnings: list[str] = Field(default_factory=list)


class ExecutorNode(Answer):
    """A node as the executor last reported it. Amounts are Kubernetes quantities."""

    name: str
    allocatable: dict[str, str | float] = Field(default_factory=dict)
    free: dict[str, str | float] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, Any]] = Field(default_factory=list)


class Executor(Answer):
    """An executor: the agent that runs sessions in one cluster.

    With `nodes`: An executor with all of its nodes.

    With `token`: A new executor and its token. The token is shown only once.
    """

    name: str
    health: Health = ""
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


class ExecutorToken(Answer):
    """The new and only token of an executor. It is shown only once."""

    name: str
    token: str


class ExecutorLease(Answer):
    """The right of an executor to run a session."""

    session_id: str
    session_name: str = ""
    project: str = ""
    queue: str = ""
    status: Status = ""
    node: str = ""
    fencing_token: int = 0
    granted_at: datetime | None = None
    accepted: bool = False
    lost_at: datetime | None = None
    run_deadline: datetime | None = None


class Drained(Answer):
    """The result of a drain."""

    name: str
    asked: int = 0
    returned: int = 0
    left: int = 0
    kept: int = 0


class RetriesWaiting(Answer):
    """The number of retries that wait for their time, and of those that a switch holds."""

    scheduled: Counted = Field(default_factory=Counted)
    held: Counted = Field(default_factory=Counted)


class Pace(Windowed):
    """Counts of the last `window` seconds: 10, or fewer under high load."""

    window: float = 10.0
    submitted: int = 0
    settled: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cause_window: float = 60.0
    causes: dict[str, int] = Field(default_factory=dict)


class QueueLook(Addressed):
    """A queue with waiting or running sessions."""

    project: str
    name: str
    priority_factor: float = 1.0
    cordoned: bool = False
    waiting: Counted = Field(default_factory=Counted)
    live: int = 0
    share: float = 0.0
    effective_priority: float = 0.0


class Overview(Answer):
    """The state of the projects that you may see, at the time `at`. `executors` is null except for
    cluster admins.

    `queues` is sorted by usage, highest first. `more_queues` is the number of other queues with
    work.
    """

    at: datetime
    waiting: Counted = Field(default_factory=Counted)
    live: int = 0
    retries: RetriesWaiting = Field(default_factory=RetriesWaiting)
    pace: Pace = Field(default_factory=Pace)
    queues: list[QueueLook] = Field(default_factory=list)
    more_queues: int = 0
    executors: list[Executor] | None = None


class SimulatedAttempt(Answer):
    """One attempt and the decision about its end.

    After a success `action` and all other fields are null. `used` is what the budget had spent
    before. `resources` are those of the next attempt; null if there is none.
    """

    attempt: int = 0
    session_id: str = ""
    cause: RetryCause | None = None
    failure_category: str | None = None
    action: str | None = None
    reason: RetryReason | None = None
    rule: str | None = None
    paid_by: str | None = None
    used: int | None = None
    limit: int | None = None
    delay: float | None = None
    avoid_node: str | None = None
    resources: dict[str, Any] | None = None
    trace: list[dict[str, Any]] = Field(default_factory=list)


class SimulatedChain(Answer):
    """The outcome that a chain would have had. `retrying`: the outcome of the next attempt is
    unknown.
    """

    attempts: list[SimulatedAttempt] = Field(default_factory=list)
    outcome: str = ""


class ChangedChain(Answer):
    """A chain whose outcome the draft would have changed."""

    root: str = ""
    was: str = ""
    would_be: str = ""


class SimulationSummary(Answer):
    """The totals: retries by cause and by rule, decisions by reason.

    `changed` has the first 1,000 chains. The added attempts and seconds are for history only.
    """

    chains: int = 0
    retries: int = 0
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_rule: dict[str, int] = Field(default_factory=dict)
    by_reason: dict[str, int] = Field(default_factory=dict)
    changed: list[ChangedChain] = Field(default_factory=list)
    added_attempts: int = 0
    added_run_seconds: float = 0.0


class Simulation(Answer):
    """The decisions of each chain, and the totals."""

    chains: list[SimulatedChain] = Field(default_factory=list)
    summary: SimulationSummary = Field(default_factory=SimulationSummary)
