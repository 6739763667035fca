"""The shapes of sessions and what belongs to them; `render/` makes the answers themselves."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, RootModel

from retry.evidence.causes import RetryCause
from sessions_app.api.shapes.pages import ForwardPage, Page
from sessions_app.api.shapes.words import DecisionState, RetryReason
from sessions_app.core.states import RetryState, Status
from sessions_app.selectors.why_pending import Reason


class Budget(BaseModel):
    """The usage of one budget of a chain. A null limit means no limit."""

    name: str
    used: int
    limit: int | None


class SessionRetryState(BaseModel):
    """The retry state of a session. `attempt` counts from 0.

    `max_attempts` is the maximum number of attempts of its chain without manual retries; null if it
    is unknown. `summary` is for people: the attempt, counted from 1, and the budget that limits it.
    """

    state: RetryState
    attempt: int
    max_attempts: int | None
    summary: str
    due_at: datetime | None
    next_session_id: UUID | None
    reason: RetryReason | None
    rule: str | None
    budgets: list[Budget]


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
    max_retries: int
    retry_policy: dict[str, Any]
    retry_policies: list[str]
    retry_cause: RetryCause | None
    failure_category: str | None
    retry_counters: dict[str, int]
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
    termination_grace_period: float
    cancel_requested_at: datetime | None
    preempt_requested_at: datetime | None
    pending_reason: str | None
    why_pending: WhyPending | None
    """Set, like `pending_reason`, for a session that has waited for some seconds or waits for a
    quota."""


class SubmittedSession(Session):
    """The submitted session."""

    warnings: list[str] = []
    """The fields of the request that have no effect; left out if there are none."""


class SessionPage(Page[ListedSession]):
    """A page of sessions, newest first."""


class BulkOutcome(BaseModel):
    """The outcome of one item: `created`, `exists` (its `creation_id` was known) or `refused`."""

    outcome: str
    session_id: UUID | None
    problem: "Problem | None"
    warnings: list[str]
    """Warnings about values of the item that have no effect."""


class BulkOutcomes(BaseModel):
    """An outcome for each item, in the order of the request."""

    results: list[BulkOutcome]


class BulkCancelOutcome(BaseModel):
    """The outcome for one session: `cancelled` or `refused`."""

    session_id: UUID
    outcome: str
    problem: "Problem | None"


class BulkRetryOutcome(BaseModel):
    """The outcome for one session: `retried`, `scheduled` (for the slot at `due_at`) or `refused`.

    In a dry run `next_session_id` is null.
    """

    session_id: UUID
    outcome: str
    next_session_id: UUID | None
    due_at: datetime | None
    problem: "Problem | None"


class BulkCancelOutcomes(BaseModel):
    """One outcome for each session, newest first.

    If more sessions match than one call takes, send `next` as `after` in the next call. `remaining`
    is the number of sessions left, counted up to 10,000.
    """

    dry_run: bool
    results: list[BulkCancelOutcome]
    next: UUID | None
    remaining: int


class BulkRetryOutcomes(BulkCancelOutcomes):
    """The outcomes of a bulk retry. The fields are those of `BulkCancelOutcomes`."""

    results: list[BulkRetryOutcome]  # type: ignore[assignment]


class Attempt(BaseModel):
    """One attempt of a chain; `attempt` counts from 0."""

    id: UUID
    attempt: int
    status: Status
    cause: RetryCause | None
    failure_category: str | None
    exit_code: int | None
    node: str | None
    executor: str | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    retry_state: RetryState
    decision: str | None


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
    """The kill switch of a scope, and the one in effect, which includes the scopes above.

    Optional fields exist only for the cluster.
    """

    scope: str
    mode: str
    effective_mode: str
    global_max_retries: int | None = None
    default_policy: str | None = None
    retries_per_minute: int | None = None
    queue_retries_per_minute: int | None = None
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
