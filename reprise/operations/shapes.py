"""The shapes of what operators are told, for the OpenAPI document."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from interfaces.executor_wire.overview_shapes import Counted, RetriesWaiting
from reprise.operations.problems import ActName, Severity, SwitchKind


class OperatorAct(BaseModel):
    """Something that an operator can do, by the name of the act and of what it is done to."""

    name: ActName
    of: str
    """An executor, a node as `executor/name`, a queue as `domain/project/name`, the id of a
    breaker, the name of a task; for retries `domain/project`, a domain, or "" for the cluster, for
    a budget also a queue; "" for all parked chains."""


class OperatorProblem(BaseModel):
    """Something that is wrong, or that somebody switched off.

    `affected` is how much of `unit` it holds up, null if that is not known. `kind` is for programs.
    """

    kind: str
    severity: Severity
    sentence: str
    subject: str
    """The object concerned, such as the name of an executor or the id of a session; "" for all."""
    since: datetime | None
    affected: Counted | None
    unit: str
    acts: list[OperatorAct]


class OperatorSwitch(BaseModel):
    """Something that can be held: the retries of a scope, an executor, a queue.

    `holds` is what it holds now, null if that cannot be said. `would_hold` is what it would hold if
    it were moved now, or would go on to hold.
    """

    kind: SwitchKind
    name: str
    """As the `of` of its acts."""
    state: str
    holds: Counted | None
    would_hold: Counted
    unit: str
    acts: list[OperatorAct]


class OperatorSchedule(BaseModel):
    """A schedule in short; `/schedules/{id}/` has the rest."""

    id: UUID
    project: str
    name: str
    owner: str | None
    cron: str | None
    time_zone: str
    every: int | None
    """Seconds from one time to the next, without `cron`."""
    next_at: datetime | None
    paused_at: datetime | None
    paused_reason: str
    last_at: datetime | None
    last_problem: str
    """Why the latest time has no session."""


class OperatorSchedules(BaseModel):
    """Schedules of the whole cluster, at most 20 of each kind."""

    coming: list[OperatorSchedule]
    """Those whose times come next, the first of them first."""
    paused: list[OperatorSchedule]
    """Those that were paused last, the newest first."""


class Operations(BaseModel):
    """The state of the whole deployment at the time `at`. `problems` are sorted, the worst
    first."""

    at: datetime
    waiting: Counted
    live: Counted
    retries: RetriesWaiting
    problems: list[OperatorProblem]
    switches: list[OperatorSwitch]
    schedules: OperatorSchedules


class HourOfTrends(BaseModel):
    """The counts of the hour that begins `at`."""

    at: datetime
    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    retried: int
    """Retries that were dispatched."""
    causes: dict[str, int]
    """The causes of the attempts that failed, the most frequent first."""


class OperationsTrends(BaseModel):
    """The last 24 hours, the oldest first, with the present one."""

    at: datetime
    hours: list[HourOfTrends]
