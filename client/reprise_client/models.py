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

ActName = str
"""One of `retries_on`, `retries_pause`, `executor_cordon`, `executor_uncordon`, `executor_drain`,
`queue_cordon`, `queue_uncordon`, `node_quarantine`, `node_release`, `breaker_close`, `parked_send`,
`chains_retry`, `chains_give_up`, `budget_raise`.
"""

DecisionState = str
"""One of `scheduled`, `held`, `dispatched`, `cancelled`, `final`."""

Health = str
"""One of `alive`, `late`, `silent`, `never_heard`."""

Reason = str
"""One of `dependencies`, `quota`, `queue_cordoned`, `project_trouble`, `executor_trouble`,
`executor_cordoned`, `no_executor`, `no_fit`, `queue_limit`, `avoided`, `capacity`, `position`.
"""

RetryCause = str
"""One of `dependency_failed`, `user_cancelled`, `validation_error`, `quota_exceeded`, `preempted`,
`evicted`, `limit_exceeded`, `agent_transient`, `deadline_exceeded`, `oom_killed`,
`image_pull_failure`, `start_failure`, `scheduler_timeout`, `kernel_nonzero_exit`, `unknown`.
"""

RetryReason = str
"""One of `rule_retry`, `inline_retry`, `default_retry`, `gave_way`, `not_batch`, `never_retried`,
`retries_disabled`, `workload_said_no`, `repeating_failure`, `global_limit`, `rule_fail`,
`rule_limit`, `cause_not_eligible`, `exit_code_excluded`, `preemption_budget`, `max_retries`,
`default_fail`, `default_limit`, `no_policy`, `chain_deadline`, `shared_budget_spent`.
"""

RetryStateWord = str
"""One of `none`, `scheduled`, `held`, `parked`, `retried`, `succeeded`, `exhausted`, `not_retried`,
`cancelled`.
"""

Severity = str
"""One of `critical`, `warning`, `notice`."""

Status = str
"""One of `PENDING`, `SCHEDULED`, `PREPARING`, `PULLING`, `PREPARED`, `CREATING`, `RUNNING`,
`TERMINATING`, `TERMINATED`, `ERROR`, `CANCELLED`.
"""

SwitchKind = str
"""One of `retries`, `executor`, `queue`."""


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
    """The usage of one budget of a chain. A null limit means no limit.

    With a `window` the limit counts only the retries of the last seconds, and `used` counts all.
    """

    name: str = ""
    used: int = 0
    limit: int | None = None
    window: float | None = None


class RetryState(Answer):
    """The retry state of a session. `attempt` counts from 0.

    `max_attempts` is the maximum number of attempts of its chain without manual retries; null if it
    has no limit of its own. `summary` is for people: the attempt, counted from 1, and the budget
    that limits it. `held_for` is what holds the retry while `state` is `held`: `switch`, `breaker`
    or `shared_budget`.
    """

    state: RetryStateWord = "none"
    attempt: int = 0
    max_attempts: int | None = None
    summary: str = ""
    due_at: datetime | None = None
    held_for: str | None = None
    next_session_id: str | None = None
    reason: RetryReason | None = None
    rule: str | None = None
    budgets: list[Budget] = Field(default_factory=list)


class WhyPending(Answer):
    """Why a session waits, as a code. `pending_reason` explains it in words."""

    reason: Reason = ""
    ahead: int = 0


class SessionProgress(Answer):
    """The progress of an attempt: how far it is, or was at its end, by the lines that it printed.

    `step`, `of` and `note` are those of its last line; `of` is null if it did not say of how many.
    `checkpoint` is its newest one, `checkpoint_step` the step of that line. `best_step` is its
    highest step, `rate` its steps a second lately; null until it told twice.
    """

    step: float
    of: float | None = None
    note: str = ""
    best_step: float = 0.0
    rate: float | None = None
    checkpoint: str | None = None
    checkpoint_step: float | None = None
    updated_at: datetime | None = None
    made_progress: bool | None = None


class SessionDependency(Answer):
    """A chain that a session waits for.

    `outcome` (`succeeded`, `failed` or `cancelled`) and `met` are null until the end was seen.
    """

    session_id: str
    creation_id: str = ""
    when: str = ""
    outcome: str | None = None
    met: bool | None = None


class Session(ChainMember):
    """A session with all details.

    With `warnings`: The submitted session.

    With `downstream`, `secrets_dropped`: The new attempt, or in a dry run the failed one.
    """

    id: str
    name: str = ""
    project: str = ""
    queue: str = ""
    job_set: str = ""
    creation_id: str = ""
    session_type: str = "batch"
    priority: int = 0
    priority_class: str | None = None
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
    max_retries: int | str = 0
    retry_policy: dict[str, Any] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    retry_cause: RetryCause | None = None
    failure_category: str | None = None
    failure_signature: str | None = None
    retry_counters: dict[str, int] = Field(default_factory=dict)
    progress: SessionProgress | None = None
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
    queue_timeout: float | None = None
    termination_grace_period: float | None = None
    depends_on: list[SessionDependency] = Field(default_factory=list)
    on_dependency_failure: str | None = None
    cancel_requested_at: datetime | None = None
    preempt_requested_at: datetime | None = None
    made_room_for: str | None = None
    pending_reason: str | None = None
    why_pending: WhyPending | None = None
    warnings: list[str] = Field(default_factory=list)
    downstream: list[str] = Field(default_factory=list)
    secrets_dropped: list[str] = Field(default_factory=list)


class Attempt(Answer):
    """One attempt of a chain; `attempt` counts from 0."""

    id: str
    attempt: int = 0
    status: Status = ""
    cause: RetryCause | None = None
    failure_category: str | None = None
    failure_signature: str | None = None
    exit_code: int | None = None
    node: str | None = None
    executor: str | None = None
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    retry_state: RetryStateWord = ""
    decision: str | None = None
    changes: dict[str, Any] | None = None
    progress: SessionProgress | None = None


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
    held_for: str | None = None
    held_key: str | None = None
    next_session_id: str | None = None
    dispatched_by: str | None = None
    dispatched_at: datetime | None = None
    decided_at: datetime | None = None
    termination: dict[str, Any] = Field(default_factory=dict)
    policy_revisions: dict[str, Any] = Field(default_factory=dict)
    trace: list[dict[str, Any]] = Field(default_factory=list)
    explanation: list[str] = Field(default_factory=list)


class DependencyNode(Answer):
    """A chain of a graph. What exists only in the log has the status that was seen, or null."""

    session_id: str
    tip_session_id: str = ""
    creation_id: str = ""
    name: str = ""
    status: Status | None = None
    retry_state: RetryStateWord | None = None
    retry_cause: RetryCause | None = None


class DependencyEdge(Answer):
    """`session_id` waits for `depends_on`, both first attempts of chains.

    `outcome` (`succeeded`, `failed` or `cancelled`) and `met` are null until the end was seen.
    """

    session_id: str
    depends_on: str
    when: str = ""
    outcome: str | None = None
    met: bool | None = None


class DependencyGraph(Answer):
    """All chains that a chain waits for, or that wait for it, also through others.

    `truncated`: there are more than 1,000 in one of the two directions.
    """

    session_id: str
    nodes: list[DependencyNode] = Field(default_factory=list)
    edges: list[DependencyEdge] = Field(default_factory=list)
    truncated: bool = False


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


class FailureShare(Answer):
    """A queue, an image or a node, and how many attempts failed so with it."""

    value: str = ""
    sessions: int = 0


class Failure(Answer):
    """Failures of one kind in a project: their signature, and their figures of the asked time."""

    key: str
    project: str = ""
    title: str = ""
    cause: RetryCause = ""
    exit_code: int | None = None
    muted: bool = False
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    example: str = ""
    sessions: int = 0
    chains: int = 0
    recovered_chains: int = 0
    lost_run_seconds: float = 0.0
    sparkline: list[int] = Field(default_factory=list)
    queues: list[FailureShare] = Field(default_factory=list)
    images: list[FailureShare] = Field(default_factory=list)
    nodes: list[FailureShare] = Field(default_factory=list)


class BreakerRule(Answer):
    """When a signature opens a breaker: so many chains fail with it within a window. Times are
    in seconds.
    """

    chains: int = 0
    window: int = 0
    probe_after: int = 0


class Breaker(Answer):
    """A signature of failures whose retries wait while its breaker is open.

    It belongs to the cluster (no project), to a project (no queue) or to a queue.
    """

    id: str
    project: str | None = None
    queue: str | None = None
    signature: str
    title: str = ""
    state: str = ""
    muted: bool = False
    reason: str = ""
    chains: int = 0
    held: int = 0
    opened_at: datetime | None = None
    opened_by: str = ""
    closed_at: datetime | None = None
    closed_by: str = ""
    probes: int = 0
    probe_at: datetime | None = None
    probe: str | None = None


class BreakerEvent(Answer):
    """A breaker opened or closed."""

    at: datetime
    type: str
    reason: str = ""
    by: str = ""
    chains: int = 0


class RetryFigures(Answer):
    """The figures of chains whose last attempt ended in the time: what their retries were worth.

    Chains whose retry waits are not in it yet. Times are seconds.
    """

    chains: int = 0
    retried_chains: int = 0
    recovered_chains: int = 0
    given_up_chains: int = 0
    cancelled_chains: int = 0
    attempts: int = 0
    run_seconds: float = 0.0
    rescued_run_seconds: float = 0.0
    wasted_run_seconds: float = 0.0
    waiting_seconds: float = 0.0
    recovery_seconds_median: float | None = None
    recovery_seconds_p95: float | None = None


class RetryReportRow(Answer):
    """The figures of one value of what the report is by."""

    chains: int = 0
    retried_chains: int = 0
    recovered_chains: int = 0
    given_up_chains: int = 0
    cancelled_chains: int = 0
    attempts: int = 0
    run_seconds: float = 0.0
    rescued_run_seconds: float = 0.0
    wasted_run_seconds: float = 0.0
    waiting_seconds: float = 0.0
    recovery_seconds_median: float | None = None
    recovery_seconds_p95: float | None = None
    value: str
    title: str = ""


class RetryReport(Answer):
    """The report of retries: figures of a time, in all and by the dimension that was asked for."""

    project: str | None = None
    since: datetime
    until: datetime
    by: str
    advice: list[str] = Field(default_factory=list)
    advice_computed_at: datetime | None = None
    total: RetryFigures
    results: list[RetryReportRow] = Field(default_factory=list)


class RetryBudget(Answer):
    """A shared retry budget, and how it stands in its window."""

    scope: str
    level: str = ""
    key: str = ""
    ratio: float = 0.0
    burst: int = 0
    window: int = 0
    over: str = ""
    platform: bool = False
    first_attempts: int = 0
    retries: int = 0
    allowed: int = 0
    left: int = 0
    held: int = 0
    spent_since: datetime | None = None
    spent_times: int = 0


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
    secrets_dropped: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class BulkChanges(Answer):
    """One outcome for each session, newest first.

    If more sessions match than one call takes, send `next` as `after` in the next call. `remaining`
    is the number of sessions left, counted up to 10,000.

    With `downstream`: The outcomes of a bulk retry. The fields are those of `BulkCancelOutcomes`.
    """

    dry_run: bool = False
    results: list[BulkChange] = Field(default_factory=list)
    next: str | None = None
    remaining: int = 0
    downstream: list[str] = Field(default_factory=list)


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
    """The settings of a scope, and those in effect, which include the scopes above.

    Optional fields exist only for the cluster; `breaker` exists for projects, too, and
    `pod_defaults` for projects only.
    """

    scope: str = ""
    mode: str = "on"
    effective_mode: str = "on"
    refuse_unfittable: bool | None = None
    effective_refuse_unfittable: bool = False
    retry_budget: dict[str, Any] | None = None
    global_max_retries: int | None = None
    default_policy: str | None = None
    retries_per_minute: int | None = None
    queue_retries_per_minute: int | None = None
    breaker: BreakerRule | None = None
    pod_defaults: dict[str, Any] | None = None
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


class PriorityClass(Versioned):
    """A priority class: sessions of a higher value go first within their queue."""

    name: str
    value: int
    preemptible: bool = False
    may_preempt: bool = False
    protected_for: float = 0.0
    domains: list[str] = Field(default_factory=list)
    projects: list[str] = Field(default_factory=list)
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
    time_limits: dict[str, dict[str, float]] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    breaker: BreakerRule | None = None
    retry_budget: dict[str, Any] | None = None
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


class ScheduleRun(Answer):
    """A chain that a schedule made."""

    session_id: str
    status: str
    retry_state: str
    submitted_at: datetime | None = None


class Schedule(Addressed):
    """A schedule: a session for each of its times, submitted as its owner.

    With `next_times`, `recent`: A schedule with its next times and its latest chains.

    With `warnings`: A schedule as it was saved.
    """

    id: str
    project: str
    name: str
    owner: str | None = None
    queue: str | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    every: int | None = None
    from_: datetime | None = Field(None, alias="from")
    until: datetime | None = None
    template: dict[str, Any] = Field(default_factory=dict)
    overlap: str = "allow"
    catch_up: int = 60
    jitter: int = 0
    pause_after: int | None = None
    paused: bool = False
    paused_at: datetime | None = None
    paused_reason: str = ""
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_problem: str = ""
    created_at: datetime | None = None
    next_times: list[datetime] = Field(default_factory=list)
    recent: list[ScheduleRun] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class NextTimes(Answer):
    """The next times of a schedule, at most five."""

    times: list[datetime] = Field(default_factory=list)


class ScheduledSession(Answer):
    """The session that a schedule made by hand."""

    id: str
    warnings: list[str] = Field(default_factory=list)


class BackfilledTime(Answer):
    """A time, and the session made for it."""

    time: datetime
    creation_id: str
    session_id: str | None = None
    error: str | None = None


class Backfilled(Answer):
    """The times of a backfill."""

    dry_run: bool
    made: int
    results: list[BackfilledTime] = Field(default_factory=list)


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


class Preemption(Answer):
    """A session that made room for another one, or would have in a dry run."""

    executor: str
    planned_at: datetime | None = None
    rule: str
    dry_run: bool = False
    nodes: list[str] = Field(default_factory=list)
    victim: str | None = None
    victim_class: str | None = None
    lost_seconds: float | None = None
    taker: str | None = None
    taker_class: str | None = None


class Reservation(Answer):
    """Nodes of an executor that are kept free for a session that waited for too long, or for which
    others make room.
    """

    executor: str = ""
    session_id: str
    session_name: str = ""
    project: str = ""
    queue: str = ""
    nodes: list[str] = Field(default_factory=list)
    since: datetime | None = None


class NodeShare(Answer):
    """A cause or a signature, and how many attempts failed so."""

    value: str = ""
    failures: int = 0


class NodeFigures(Answer):
    """The ends of the newest attempts on a node, at most 200 of the last day."""

    attempts: int = 0
    failures: int = 0
    chains: int = 0
    causes: list[NodeShare] = Field(default_factory=list)
    signatures: list[NodeShare] = Field(default_factory=list)


class ClusterNode(Answer):
    """A node of an executor: whether it is suspect or in quarantine, and how attempts end there."""

    executor: str
    name: str
    state: str = ""
    present: bool = False
    suspected_at: datetime | None = None
    suspected_until: datetime | None = None
    reason: str = ""
    quarantined_at: datetime | None = None
    quarantined_by: str = ""
    quarantine_reason: str = ""
    figures: NodeFigures | None = None


class ExecutorNode(Answer):
    """A node as the executor last reported it. Amounts are Kubernetes quantities."""

    name: str
    allocatable: dict[str, str | float] = Field(default_factory=dict)
    free: dict[str, str | float] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, Any]] = Field(default_factory=list)


class ExecutorNodeTemplate(Answer):
    """A kind of nodes that the executor's cluster can add, up to `max` of them in all.

    Amounts are Kubernetes quantities. A node is of the template if it has all of its labels.
    """

    name: str
    resources: dict[str, str | float] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, Any]] = Field(default_factory=list)
    max: int = 0


class Executor(Answer):
    """An executor: the agent that runs sessions in one cluster.

    With `nodes`, `reservations`: An executor with all of its nodes, and what they are kept free
    for.

    With `token`: A new executor and its token. The token is shown only once.
    """

    name: str
    health: Health = ""
    heartbeat_age: float | None = None
    last_seen_at: datetime | None = None
    trouble: str = ""
    project_troubles: list[ProjectTrouble] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    incarnation: int = 0
    driver: str = ""
    max_sessions: int = 0
    lease_count: int = 0
    node_count: int = 0
    projects: list[str] = Field(default_factory=list)
    unconfirmed_after: float | None = None
    placement: str = ""
    avoid_suspects: str = ""
    auto_quarantine: bool = False
    preemption: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    node_templates: list[ExecutorNodeTemplate] = Field(default_factory=list)
    pod_placing: dict[str, Any] = Field(default_factory=dict)
    extended_tolerations: bool = False
    cordoned: bool = False
    cordon_reason: str = ""
    draining_since: datetime | None = None
    created_at: datetime | None = None
    nodes: list[ExecutorNode] = Field(default_factory=list)
    reservations: list[Reservation] = Field(default_factory=list)
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
    nodes: list[str] = Field(default_factory=list)
    template: str = ""
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


class OperatorAct(Answer):
    """Something that an operator can do, by the name of the act and of what it is done to."""

    name: ActName
    of: str = ""


class OperatorProblem(Answer):
    """Something that is wrong, or that somebody switched off.

    `affected` is how much of `unit` it holds up, null if that is not known. `kind` is for programs.
    """

    kind: str
    severity: Severity
    sentence: str
    subject: str = ""
    since: datetime | None = None
    affected: Counted | None = None
    unit: str = ""
    acts: list[OperatorAct] = Field(default_factory=list)


class OperatorSwitch(Answer):
    """Something that can be held: the retries of a scope, an executor, a queue.

    `holds` is what it holds now, null if that cannot be said. `would_hold` is what it would hold if
    it were moved now, or would go on to hold.
    """

    kind: SwitchKind
    name: str
    state: str
    holds: Counted | None = None
    would_hold: Counted = Field(default_factory=Counted)
    unit: str = ""
    acts: list[OperatorAct] = Field(default_factory=list)


class OperatorSchedule(Addressed):
    """A schedule in short; `/schedules/{id}/` has the rest."""

    id: str
    project: str
    name: str
    owner: str | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    every: int | None = None
    next_at: datetime | None = None
    paused_at: datetime | None = None
    paused_reason: str = ""
    last_at: datetime | None = None
    last_problem: str = ""


class OperatorSchedules(Answer):
    """Schedules of the whole cluster, at most 20 of each kind."""

    coming: list[OperatorSchedule] = Field(default_factory=list)
    paused: list[OperatorSchedule] = Field(default_factory=list)


class Operations(Answer):
    """The state of the whole deployment at the time `at`. `problems` are sorted, the worst
    first.
    """

    at: datetime
    waiting: Counted = Field(default_factory=Counted)
    live: Counted = Field(default_factory=Counted)
    retries: RetriesWaiting = Field(default_factory=RetriesWaiting)
    problems: list[OperatorProblem] = Field(default_factory=list)
    switches: list[OperatorSwitch] = Field(default_factory=list)
    schedules: OperatorSchedules = Field(default_factory=OperatorSchedules)


class HourOfTrends(Answer):
    """The counts of the hour that begins `at`."""

    at: datetime
    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    causes: dict[str, int] = Field(default_factory=dict)


class OperationsTrends(Answer):
    """The last 24 hours, the oldest first, with the present one."""

    at: datetime
    hours: list[HourOfTrends] = Field(default_factory=list)


class SimulatedAttempt(Answer):
    """One attempt and the decision about its end.

    After a success `action` and all other fields are null. `used` is what the budget had spent
    before. `resources` are those of the next attempt; null if there is none.
    """

    attempt: int = 0
    session_id: str = ""
    cause: RetryCause | None = None
    failure_category: str | None = None
    failure_signature: str | None = None
    failure_title: str | None = None
    action: str | None = None
    reason: RetryReason | None = None
    rule: str | None = None
    paid_by: str | None = None
    used: int | None = None
    limit: int | None = None
    delay: float | None = None
    avoid_node: str | None = None
    resources: dict[str, Any] | None = None
    placement: dict[str, Any] | None = None
    trace: list[dict[str, Any]] = Field(default_factory=list)
    held_for: str | None = None
    held_seconds: float | None = None


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

    `changed` has the first 1,000 chains. The added attempts and seconds and `assumptions` are for
    history only, and all else that follows for histories with breakers or shared budgets; `held`
    also for given chains in which they hold a retry.
    """

    chains: int = 0
    retries: int = 0
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_rule: dict[str, int] = Field(default_factory=dict)
    by_reason: dict[str, int] = Field(default_factory=dict)
    changed: list[ChangedChain] = Field(default_factory=list)
    added_attempts: int = 0
    added_run_seconds: float = 0.0
    held: dict[str, int] | None = None
    held_seconds: dict[str, float] | None = None
    spared_retries: int = 0
    breakers_opened: int = 0
    assumptions: list[str] | None = None


class Simulation(Answer):
    """The decisions of each chain, and the totals."""

    chains: list[SimulatedChain] = Field(default_factory=list)
    summary: SimulationSummary = Field(default_factory=SimulationSummary)
