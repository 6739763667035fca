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
    """What a chain has spent of one budget; no limit is null."""

    name: str
    used: int
    limit: int | None


class SessionRetryState(BaseModel):
    """What becomes of a session; `attempt` counts from 0.

    `max_attempts` is the most attempts that its chain can come to by itself, null if nothing says;
    `summary` names for people the attempt, from 1, and the budget that binds.
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
    """A session as lists show it; `retry_chain` is there with `?expand=chain`."""

    retry_chain: list[UUID] | None = None


class WhyPending(BaseModel):
    """What holds a session that waits, in a word; in words for people it is `pending_reason`."""

    reason: Reason
    ahead: int
    """The sessions of its queue that go before it, counted up to 1,000."""


class Session(SessionSummary):
    """A session with all that is known of it."""

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
    """A session that was submitted."""

    warnings: list[str] = []
    """The fields of the request that have no effect; left out if there are none."""


class SessionPage(Page[ListedSession]):
    """A page of sessions, newest first."""


class BulkOutcome(BaseModel):
    """What became of one item: `created`, `exists` (its `creation_id` was known) or `refused`."""

    outcome: str
    session_id: UUID | None
    problem: "Problem | None"
    warnings: list[str]
    """What of the item has no effect."""


class BulkOutcomes(BaseModel):
    """An outcome for each item, in the order of the request."""

    results: list[BulkOutcome]


class BulkCancelOutcome(BaseModel):
    """What became of one session: `cancelled` or `refused`."""

    session_id: UUID
    outcome: str
    problem: "Problem | None"


class BulkRetryOutcome(BaseModel):
    """What became of one session: `retried`, `scheduled` (its slot is at `due_at`) or `refused`.

    Of a dry run `next_session_id` is null.
    """

    session_id: UUID
    outcome: str
    next_session_id: UUID | None
    due_at: datetime | None
    problem: "Problem | None"


class BulkCancelOutcomes(BaseModel):
    """An outcome for each session, newest first.

    If there are more sessions than one call takes, `next` is what the next call sends as `after`,
    and `remaining` how many they are, counted up to 10,000.
    """

    dry_run: bool
    results: list[BulkCancelOutcome]
    next: UUID | None
    remaining: int


class BulkRetryOutcomes(BulkCancelOutcomes):
    """As `BulkCancelOutcomes`."""

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
    """The chain as one JSON array, or a page of it if one was asked for."""


class Decision(BaseModel):
    """What was decided after a failure and why; `delay` in seconds.

    `resources` are what the next attempt gets in place of this one's. `paced`: it has a slot under
    the storm limits; `requested_by` asked for the retry that waits for its slot.
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
    """One fact of a session's history; streams of sessions go on after an `id`, those of job sets
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
    """Events in order."""


class JobSet(BaseModel):
    """Sessions of one project (`domain/name`) that were submitted under one name."""

    name: str
    project: str
    first_event_at: datetime
    last_event_at: datetime


class JobSetPage(ForwardPage[JobSet]):
    """A page of job sets, by project and name."""


class EffectiveField(BaseModel):
    """A value of the merged policy and the layer that it comes from."""

    value: Any
    layer: str


class Defaults(BaseModel):
    """The inline policy and the bounds of one scope; absent fields are inherited.

    `effective` and `effective_bounds` are there with `?effective=true`.
    """

    scope: str
    policy: dict[str, Any]
    bounds: dict[str, Any]
    updated_at: datetime | None
    effective: dict[str, EffectiveField] | None = None
    effective_bounds: dict[str, EffectiveField] | None = None


class Settings(BaseModel):
    """The switch of one scope, and the one that holds with those above it.

    The fields that may be absent are the cluster's only.
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
    """A quota that holds in a scope: whose it is, and how it stands, as quantities."""

    scope: str
    name: str
    limit: str
    used: str


class Quotas(BaseModel):
    """The limits of one scope, null where there is none; `usage` has those of its domain, too."""

    scope: str
    sessions: int | None
    pending_sessions: int | None
    resources: dict[str, str]
    usage: list[QuotaStanding]


class WhoAmI(BaseModel):
    """The bearer of the token."""

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
