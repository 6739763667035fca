"""The shapes of sessions and what belongs to them; `render/` makes the answers themselves."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, RootModel

from interfaces.shapes.pages import ForwardPage, Page
from interfaces.shapes.words import DecisionState, RetryReason
from retry.breakers import BreakerRule
from retry.evidence.causes import RetryCause
from retry.policies.limits import Limit
from retry.policies.shared_budget import SharedBudget
from sessions_app.core.states import RetryState, Status
from sessions_app.selectors.why_pending import Reason


class Budget(BaseModel):
    """The usage of one budget of a chain. A null limit means no limit.

    With a `window` the limit counts only the retries of the last seconds, and `used` counts all.
    """

    name: str
    used: int
    limit: int | None
    window: float | None = None
    """Seconds; left out if the limit counts for the whole chain."""


class SessionRetryState(BaseModel):
    """The retry state of a session. `attempt` counts from 0.

    `max_attempts` is the maximum number of attempts of its chain without manual retries; null if it
    has no limit of its own. `summary` is for people: the attempt, counted from 1, and the budget
    that limits it.
    `held_for` is what holds the retry while `state` is `held`: `switch`, `breaker` or
    `shared_budget`.
    """

    state: RetryState
    attempt: int
    max_attempts: int | None
    summary: str
    due_at: datetime | None
    held_for: str | None
    next_session_id: UUID | None
    reason: RetryReason | None
    rule: str | None
    budgets: list[Budget]


class SessionProgress(BaseModel):
    """The progress of an attempt: how far it is, or was at its end, by the lines that it printed.

    `step`, `of` and `note` are those of its last line; `of` is null if it did not say of how many.
    `checkpoint` is its newest one, `checkpoint_step` the step of that line. `best_step` is its
    highest step, `rate` its steps a second lately; null until it told twice.
    """

    step: float
    of: float | None
    note: str
    best_step: float
    rate: float | None
    checkpoint: str | None
    checkpoint_step: float | None
    updated_at: datetime
    made_progress: bool | None
    """Whether an ended attempt came further than all attempts before it; null while it runs."""


class SessionSummary(BaseModel):
    """A session without its specification."""

    id: UUID
    name: str
    project: str
    queue: str
    job_set: str
    creation_id: str
    session_type: str
    priority: int
    priority_class: str | None
    """Null if the class was deleted."""
    owner: str | None
    status: Status
    status_message: str
    created_at: datetime
    scheduled_at: datetime | None
    accepted_at: datetime | None
    started_at: datetime | None
    terminating_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    node: str | None
    executor: str | None
    parent_session_id: UUID | None
    root_session_id: UUID
    retry_count: int
    max_retries: Limit
    retry_policy: dict[str, Any]
    retry_policies: list[str]
    retry_cause: RetryCause | None
    failure_category: str | None
    failure_signature: str | None
    """The key of the failure: failures of one kind have the same. Null if it has not failed."""
    retry_counters: dict[str, int]
    progress: SessionProgress | None
    """How far it is, if it told."""
    chain_count: int
    """The number of attempts of its chain."""
    chain_url: str
    """The address of the list of its attempts."""
    retry_state: SessionRetryState


class ListedSession(SessionSummary):
    """A session in a list. `retry_chain` is present with `?expand=chain`."""

    retry_chain: list[UUID] | None = None


class WhyPending(BaseModel):
    """Why a session waits, as a code. `pending_reason` explains it in words."""

    reason: Reason
    ahead: int
    """The sessions of its queue that go before it, counted up to 1,000."""


class SessionDependency(BaseModel):
    """A chain that a session waits for.

    `outcome` (`succeeded`, `failed` or `cancelled`) and `met` are null until the end was seen.
    """

    session_id: UUID
    """The first attempt of the chain."""
    creation_id: str
    when: str
    outcome: str | None
    met: bool | None


class Session(SessionSummary):
    """A session with all details."""

    retry_chain: list[UUID]
    image: str
    command: list[str]
    environ: dict[str, str | None]
    """The value is null if the caller, a viewer, may not see it."""
    secret_environ: list[str]
    """The names of its secret variables."""
    resources: dict[str, Any]
    mounts: list[dict[str, Any]]
    ports: list[str]
    pod_spec: dict[str, Any] | None
    """For a viewer each `value` in an `env` is null."""
    labels: dict[str, str]
    cluster_size: int
    batch_timeout: float | None
    scheduling_timeout: float | None
    queue_timeout: float | None
    termination_grace_period: float
    depends_on: list[SessionDependency]
    """What its chain waits for, or has waited for, in the order of the request."""
    on_dependency_failure: str | None
    """`cancel` or `run`; null without dependencies."""
    cancel_requested_at: datetime | None
    preempt_requested_at: datetime | None
    made_room_for: UUID | None
    """The waiting session for which Reprise preempted it; null also if you may not see that one."""
    pending_reason: str | None
    why_pending: WhyPending | None
    """Set, like `pending_reason`, for a session that has waited for some seconds or waits for a
    quota."""


class DependencyNode(BaseModel):
    """A chain of a graph. What exists only in the log has the status that was seen, or null."""

    session_id: UUID
    """The first attempt of the chain."""
    tip_session_id: UUID
    """The newest one, whose status this is."""
    creation_id: str
    name: str
    status: Status | None
    retry_state: RetryState | None
    retry_cause: RetryCause | None


class DependencyEdge(BaseModel):
    """`session_id` waits for `depends_on`, both first attempts of chains.

    `outcome` (`succeeded`, `failed` or `cancelled`) and `met` are null until the end was seen.
    """

    session_id: UUID
    depends_on: UUID
    when: str
    outcome: str | None
    met: bool | None


class DependencyGraph(BaseModel):
    """All chains that a chain waits for, or that wait for it, also through others.

    `truncated`: there are more than 1,000 in one of the two directions.
    """

    session_id: UUID
    nodes: list[DependencyNode]
    edges: list[DependencyEdge]
    truncated: bool


class SubmittedSession(Session):
    """The submitted session."""

    warnings: list[str] = []
    """The fields of the request that have no effect; left out if there are none."""


class RetriedSession(Session):
    """The new attempt, or in a dry run the failed one."""

    downstream: list[UUID] = []
    """The new attempts of the sessions downstream, or in a dry run the failed ones; left out if
    there are none."""
    secrets_dropped: list[str] = []
    """The names of secrets that the new attempt does not get, because somebody else gave them and
    the call changes what runs; left out if there are none."""
    warnings: list[str] = []
    """That it fits on no executor with the changes; left out if there are none."""


class SessionPage(Page[ListedSession]):
    """A page of sessions, newest first."""


class Attempt(BaseModel):
    """One attempt of a chain; `attempt` counts from 0."""

    id: UUID
    attempt: int
    status: Status
    cause: RetryCause | None
    failure_category: str | None
    failure_signature: str | None
    """Equal for attempts that failed in the same way; null for a success and a cancel."""
    exit_code: int | None
    node: str | None
    executor: str | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    retry_state: RetryState
    decision: str | None
    changes: dict[str, Any] | None
    """What the person changed who asked for this attempt, with the `reason`. Of variables only the
    names, of a pod specification only that it changed. `secrets_dropped` has the names of the
    secrets that it did not get."""
    progress: SessionProgress | None
    """How far it is, or was at its end; null if it told nothing."""


class AttemptPage(ForwardPage[Attempt]):
    """A page of a chain, oldest attempt first."""


class Attempts(RootModel[list[Attempt] | AttemptPage]):
    """The chain as a JSON array, or a page of it if pagination was requested."""


class Decision(BaseModel):
    """The decision after a failure, and its reasons. `delay` is in seconds.

    `resources` are those of the next attempt if they differ. `paced`: the retry has a slot under
    the storm limits. `requested_by` is the user who requested a retry by hand that waits for its
    slot.
    """

    session_id: UUID
    action: str
    reason: RetryReason
    cause: RetryCause
    failure_category: str | None
    rule: str | None
    paid_by: str | None
    used: int | None
    limit: int | None
    delay: float | None
    due_at: datetime | None
    state: DecisionState
    avoid_node: str | None
    avoid_executor: str | None
    resources: dict[str, Any] | None
    paced: bool
    requested_by: str | None
    held_for: str | None
    """What holds a retry that waits: `switch`, `breaker`, `shared_budget` or `parked`."""
    held_key: str | None
    """Which one of these holds it, such as a signature; null where there is only one."""
    next_session_id: UUID | None
    dispatched_by: str | None
    dispatched_at: datetime | None
    decided_at: datetime
    termination: dict[str, Any]
    policy_revisions: dict[str, Any]
    trace: list[dict[str, Any]]
    explanation: list[str]


class Event(BaseModel):
    """An event of a session. A stream of a session continues after an `id`, a stream of a job set
    after a `cursor`."""

    id: int
    cursor: str
    seq: int
    type: str
    session_id: UUID
    root_session_id: UUID
    project: str
    job_set: str
    attempt: int
    time: datetime
    data: dict[str, Any]


class EventPage(ForwardPage[Event]):
    """Events, oldest first."""


class JobSet(BaseModel):
    """A job set: sessions of one project (`domain/name`) that were submitted under one name."""

    name: str
    project: str
    first_event_at: datetime
    last_event_at: datetime


class JobSetPage(ForwardPage[JobSet]):
    """A page of job sets, by project and name."""


class EffectiveField(BaseModel):
    """A value of the merged policy, and the layer that sets it."""

    value: Any
    layer: str


class Defaults(BaseModel):
    """The inline policy and the bounds of a scope. Absent fields are inherited.

    `effective` and `effective_bounds` are present with `?effective=true`.
    """

    scope: str
    policy: dict[str, Any]
    bounds: dict[str, Any]
    updated_at: datetime | None
    effective: dict[str, EffectiveField] | None = None
    effective_bounds: dict[str, EffectiveField] | None = None


class Settings(BaseModel):
    """The settings of a scope, and those in effect, which include the scopes above.

    Optional fields exist only for the cluster; `breaker` exists for projects, too, and
    `pod_defaults` for projects only.
    """

    scope: str
    mode: str
    effective_mode: str
    refuse_unfittable: bool | None
    """Whether a submission that fits on no executor is refused; null: as the scope above says."""
    effective_refuse_unfittable: bool
    """The same with the scopes above."""
    retry_budget: SharedBudget | None
    """The most automatic retries of this scope within a window; those of the scopes above apply,
    too."""
    global_max_retries: int | None = None
    """The most retries of any chain; null: no limit."""
    default_policy: str | None = None
    retries_per_minute: int | None = None
    queue_retries_per_minute: int | None = None
    breaker: BreakerRule | None = None
    """When retries of a failure wait because many chains fail with it; null: never."""
    pod_defaults: dict[str, Any] | None = None
    """What pods of the project get where their sessions say nothing; null: nothing."""
    updated_at: datetime | None


class QuotaStanding(BaseModel):
    """A quota that applies in a scope: its owner, its limit and its usage, as quantities."""

    scope: str
    name: str
    limit: str
    used: str


class Quotas(BaseModel):
    """The limits of a scope; null means no limit. `usage` includes the limits of its domain."""

    scope: str
    sessions: int | None
    pending_sessions: int | None
    resources: dict[str, str]
    usage: list[QuotaStanding]


class WhoAmI(BaseModel):
    """The owner of the token."""

    username: str
    cluster_admin: bool
    project: str | None
    token_name: str
    expires_at: datetime | None
    read_only: bool


class Problem(BaseModel):
    """RFC 9457; `errors` maps a field to what is wrong with it."""

    type: str
    title: str
    status: int
    detail: str
    errors: dict[str, list[str]]
