"""The server's answers as typed values.

All are tolerant, so that a newer server does not break an older client. Unknown fields are kept as
they came, missing ones have their defaults, and enumerations are plain strings. Times are aware
datetimes, durations are in seconds.
"""

from datetime import datetime
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from reprise_client.errors import InvalidAnswer

FINAL_STATUSES = frozenset({"TERMINATED", "ERROR", "CANCELLED"})
UNSTARTED_STATUSES = frozenset(
    {"PENDING", "SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING"}
)
WAITING_STATES = frozenset({"scheduled", "held"})


class Answer(BaseModel):
    """The base of answers: immutable, open to unknown fields, null stands for the default."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if value is None and not field.is_required():
            return field.get_default(call_default_factory=True)
        return value


class Versioned(Answer):
    """The base of things that can be changed.

    `etag` is the version, if the answer was about this thing alone.
    """

    etag: str = Field(default="", exclude=True)


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


def parsed(kind: type[AnyAnswer], data: Any, source: str) -> AnyAnswer:
    """Return `data` as a `kind`. Raises `InvalidAnswer` with the URL `source`."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidAnswer(source, repr(data)[:200]) from error


class BulkOutcome(Answer):
    """The outcome for one item of a bulk call: `created`, `exists` or `refused`.

    `problem` is the problem detail of a refusal. `warnings` name fields that have no effect.
    """

    outcome: str
    session_id: str | None = None
    problem: dict[str, Any] | None = None
    warnings: list[str] = Field(default_factory=list)


class BulkChange(Answer):
    """The outcome of a bulk call for one session: `retried`, `scheduled`, `cancelled` or `refused`.

    A retried session names its next attempt, except in a dry run. A scheduled one waits for its
    slot at `due_at`. `problem` says why it was refused.
    """

    session_id: str
    outcome: str
    next_session_id: str | None = None
    due_at: datetime | None = None
    problem: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self.outcome != "refused"


class BulkChanges(Answer):
    """One page of a bulk call, newest session first. `next` is the `after` of the next page.

    `remaining` is the number of sessions on later pages, counted up to 10,000.
    """

    dry_run: bool = False
    results: list[BulkChange] = Field(default_factory=list)
    next: str | None = None
    remaining: int = 0


class Budget(Answer):
    """One budget of retries of a chain. `limit` None means no limit."""

    name: str = ""
    used: int = 0
    limit: int | None = None


class RetryState(Answer):
    """The position of a session in its chain.

    `state` is none, scheduled, held, retried, succeeded, exhausted, not_retried or cancelled.
    `attempt` counts from 0. `max_attempts` is the most attempts that the chain can reach by itself,
    None if there is no limit. `summary` says in words which attempt it is, from 1, and which budget
    binds.
    """

    state: str = "none"
    attempt: int = 0
    max_attempts: int | None = None
    summary: str = ""
    due_at: datetime | None = None
    next_session_id: str | None = None
    reason: str | None = None
    rule: str | None = None
    budgets: list[Budget] = Field(default_factory=list)


class WhyPending(Answer):
    """The reason why a session waits.

    `ahead` counts the sessions of its queue that go before it.
    """

    reason: str = ""
    ahead: int = 0


class Session(Answer):
    """One attempt. In lists the fields of the spec (image, command, ...) have their defaults."""

    id: str
    status: str
    name: str = ""
    project: str = ""
    queue: str = ""
    job_set: str | None = None
    creation_id: str | None = None
    session_type: str = "batch"
    priority: int = 0
    cluster_size: int = 1
    pending_reason: str | None = None
    labels: dict[str, Any] = Field(default_factory=dict)
    image: str | None = None
    command: list[str] = Field(default_factory=list)
    environ: dict[str, Any] = Field(default_factory=dict)
    secret_environ: list[str] = Field(default_factory=list)
    resources: dict[str, Any] = Field(default_factory=dict)
    mounts: list[Any] = Field(default_factory=list)
    ports: list[Any] = Field(default_factory=list)
    batch_timeout: float | None = None
    scheduling_timeout: float | None = None
    termination_grace_period: float | None = None
    owner: str | None = None
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    node: str | None = None
    executor: str | None = None
    retry_cause: str | None = None
    failure_category: str | None = None
    status_message: str | None = None
    cancel_requested_at: datetime | None = None
    preempt_requested_at: datetime | None = None
    why_pending: WhyPending | None = None
    """Set for a session that has waited for some seconds, if it was requested singly."""
    parent_session_id: str | None = None
    root_session_id: str | None = None
    retry_count: int = 0
    max_retries: int = 0
    retry_policy: dict[str, Any] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    retry_counters: dict[str, int] = Field(default_factory=dict)
    chain_count: int = 0
    """The number of attempts of its chain; 0 from a server that does not send it."""
    chain_url: str | None = None
    retry_chain: list[str] = Field(default_factory=list)
    """The ids of its chain, oldest first. Lists have it only with `expand="chain"`."""
    retry_state: RetryState = Field(default_factory=RetryState)
    warnings: list[str] = Field(default_factory=list)
    """Fields of the request that have no effect; only in the answer to a submission."""

    @property
    def final(self) -> bool:
        """Return whether this attempt has ended; its chain may go on."""
        return self.status in FINAL_STATUSES

    @property
    def started(self) -> bool:
        return self.status not in UNSTARTED_STATUSES

    @property
    def retry_waits(self) -> bool:
        """Return whether a retry is decided and not yet dispatched."""
        return self.retry_state.state in WAITING_STATES

    @property
    def successor_id(self) -> str | None:
        """Return the id of the next attempt, or None."""
        if self.id in self.retry_chain[:-1]:
            return self.retry_chain[self.retry_chain.index(self.id) + 1]
        return self.retry_state.next_session_id if self.retry_state.state == "retried" else None

    @property
    def chain_over(self) -> bool:
        """Return whether this was the last attempt: none runs and none waits."""
        return self.final and not self.retry_waits and self.successor_id is None


class Attempt(Answer):
    """One attempt of a chain, in brief. `decision` says in a line what its failure led to."""

    id: str
    attempt: int = 0
    status: str = ""
    cause: str | None = None
    failure_category: str | None = None
    exit_code: int | None = None
    node: str | None = None
    executor: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    decision: str | None = None


class Decision(Answer):
    """The engine's decision about one failure, and why.

    `used` is what the paying budget had spent before. `resources` are the next attempt's if they
    differ. `paced` means that storm limits gave the retry a slot of its own; `requested_by` is who
    asked for such a retry by hand. `explanation` has sentences, `trace` the recorded steps.
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
    state: str | None = None
    avoid_node: str | None = None
    avoid_executor: str | None = None
    resources: dict[str, Any] | None = None
    paced: bool = False
    requested_by: str | None = None
    policy_revisions: dict[str, Any] = Field(default_factory=dict)
    next_session_id: str | None = None
    dispatched_by: str | None = None
    decided_at: datetime | None = None
    termination: dict[str, Any] = Field(default_factory=dict)
    trace: list[Any] = Field(default_factory=list)
    explanation: list[str] = Field(default_factory=list)


class Event(Answer):
    """An event of the log.

    To continue after it, use its `id` for a session and its `cursor` for a job set.
    """

    id: str | int
    type: str
    cursor: str | None = None
    seq: int | None = None
    session_id: str | None = None
    root_session_id: str | None = None
    project: str | None = None
    job_set: str | None = None
    attempt: int | None = None
    time: datetime | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class JobSet(Answer):
    """The sessions that a project (`domain/name`) submitted under one name."""

    name: str
    project: str = ""
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None


class Whoami(Answer):
    """The user of the token, and the token's restrictions."""

    username: str
    cluster_admin: bool = False
    project: str | None = None
    token_name: str | None = None
    expires_at: datetime | None = None
    read_only: bool = False
