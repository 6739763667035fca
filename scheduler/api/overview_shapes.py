"""The shapes of the overview, for the OpenAPI document."""

from datetime import datetime

from pydantic import BaseModel

from scheduler.api.registry_shapes import Executor


class Counted(BaseModel):
    """A number; with `more` the least that there are."""

    value: int
    more: bool


class RetriesWaiting(BaseModel):
    """Retries that wait for their time, and for a switch."""

    scheduled: Counted
    held: Counted


class Pace(BaseModel):
    """What happened in the last `window` seconds: ten, or less where very much happens."""

    window: float
    submitted: int
    settled: int
    succeeded: int
    failed: int
    retried: int
    cause_window: float
    causes: dict[str, int]
    """Causes of the attempts that failed in the last `cause_window` seconds (at most a minute), the
    most frequent first."""


class QueueLook(BaseModel):
    """A queue in which something waits or runs."""

    project: str
    name: str
    priority_factor: float
    cordoned: bool
    waiting: Counted
    live: int
    share: float
    """The queue's dominant share of the pool."""
    effective_priority: float
    """The queue with the lowest value is served next."""


class Overview(BaseModel):
    """The projects that one may see, as of `at`; `executors` is null for all but cluster admins.

    `queues` has those that hold most first, `more_queues` says how many others have work.
    """

    at: datetime
    waiting: Counted
    live: int
    retries: RetriesWaiting
    pace: Pace
    queues: list[QueueLook]
    more_queues: int
    executors: list[Executor] | None
