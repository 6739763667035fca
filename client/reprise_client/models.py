"""The server's answers as typed values.

All are tolerant, so that a newer server does not break an older client: a field that is not
listed here is kept as it came, one that is missing has its default, words stay plain strings.
Times are aware datetimes, durations seconds.
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
    """Base of the answers: immutable, open to unknown fields, null stands for the default."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if value is None and not field.is_required():
            return field.get_default(call_default_factory=True)
        return value


class Versioned(Answer):
    """What can be changed; `etag` is its version, where the answer was about it alone."""

    etag: str = Field(default="", exclude=True)


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


def parsed(kind: type[AnyAnswer], data: Any, source: str) -> AnyAnswer:
    """`data` as a `kind`; raises `InvalidAnswer`, with the URL that is its `source`."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidAnswer(source, repr(data)[:200]) from error


class BulkOutcome(Answer):
    """What became of one item of a bulk call: `created`, `exists` or `refused`.

    `problem` is the problem detail of one that was refused, `warnings` tell what has no effect.
    """

    outcome: str
    session_id: str | None = None
    problem: dict[str, Any] | None = None
    warnings: list[str] = Field(default_factory=list)


class BulkChange(Answer):
    """What a bulk call did to one session: `retried`, `scheduled`, `cancelled` or `refused`.

    One that was retried names the next attempt, except in a dry run; one that is scheduled has to
    wait for its slot, which is at `due_at`. `problem` says why it was refused.
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
    """One page of a bulk call, newest session first; `next` is the `after` of the one behind it.

    `remaining` is how many sessions that page and those after it have, counted up to 10,000.
    """

    dry_run: bool = False
    results: list[BulkChange] = Field(default_factory=list)
    next: str | None = None
    remaining: int = 0


class Budget(Answer):
    """One counter of retries of a chain; `limit` None is no limit."""

    name: str = ""
    used: int = 0
    limit: int | None = None


class RetryState(Answer):
    """Where a session stands in its chain.

    `state` is none, scheduled, held, retried, succeeded, exhausted, not_retried or cancelled;
    `attempt` counts from 0. `max_attempts` is the most attempts that the chain can come to by
    itself, None if nothing says. `summary` tells people which attempt it is, from 1, and which
    budget binds.
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
    """What holds a session that waits; `ahead` counts those of its queue that go before it."""

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
    """Of one that has waited for some seconds, and that was asked for by itself."""
    parent_session_id: str | None = None
    root_session_id: str | None = None
    retry_count: int = 0
    max_retries: int = 0
    retry_policy: dict[str, Any] = Field(default_factory=dict)
    retry_policies: list[str] = Field(default_factory=list)
    retry_counters: dict[str, int] = Field(default_factory=dict)
    chain_count: int = 0
    """Of the attempts of its chain; 0: an older server did not say."""
    chain_url: str | None = None
    retry_chain: list[str] = Field(default_factory=list)
    """The ids of its chain, oldest first; in lists only with `expand="chain"`."""
    retry_state: RetryState = Field(default_factory=RetryState)
    warnings: list[str] = Field(default_factory=list)
    """What of the request has no effect; in the answer to a submission."""

    @property
    def final(self) -> bool:
        """This attempt has ended; its chain may go on."""
        return self.status in FINAL_STATUSES

    @property
    def started(self) -> bool:
        return self.status not in UNSTARTED_STATUSES

    @property
    def retry_waits(self) -> bool:
        """A retry is decided and has not been dispatched."""
        return self.retry_state.state in WAITING_STATES

    @property
    def successor_id(self) -> str | None:
        """The next attempt, if there is one."""
        if self.id in self.retry_chain[:-1]:
            return self.retry_chain[self.retry_chain.index(self.id) + 1]
        return self.retry_state.next_session_id if self.retry_state.state == "retried" else None

    @property
    def chain_over(self) -> bool:
        """No attempt runs and none waits: this one was the last."""
        return self.final and not self.retry_waits and self.successor_id is None


class Attempt(Answer):
    """One member of a chain, in brief; `decision` says in a line what its failure led to."""

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
    """What the engine decided about one failure, and why.

    `used` is what the paying budget had spent before; `resources` are what the next attempt gets
    if that differs. `paced`: the storm limits gave the retry a slot of its own; `requested_by`
    asked for one that waits for its slot. `explanation` are sentences, `trace` the steps as the
    engine recorded them.
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
    """One line of the log; a reader of a session goes on after its `id`, one of a job set after
    its `cursor`."""

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
    """What a project (`domain/name`) has submitted under one name."""

    name: str
    project: str = ""
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None


class Whoami(Answer):
    """Whom the token stands for, and what it is narrowed to."""

    username: str
    cluster_admin: bool = False
    project: str | None = None
    token_name: str | None = None
    expires_at: datetime | None = None
    read_only: bool = False
