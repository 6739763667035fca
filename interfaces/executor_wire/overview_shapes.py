"""The shapes of the overview, for the OpenAPI document."""

from datetime import datetime

from pydantic import BaseModel

from interfaces.executor_wire.registry_shapes import Executor


class Counted(BaseModel):
    """A count. If `more` is true, it is a lower bound."""

    value: int
    more: bool


class RetriesWaiting(BaseModel):
    """The number of retries that wait for their time, and of those that a switch holds."""

    scheduled: Counted
    held: Counted


class Pace(BaseModel):
    """Counts of the last `window` seconds: 10, or fewer under high load."""

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
    """A queue with waiting or running sessions."""

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
    """The state of the projects that you may see, at the time `at`. `executors` is null except for
    cluster admins.

    `queues` is sorted by usage, highest first. `more_queues` is the number of other queues with
    work.
    """

    at: datetime
    waiting: Counted
    live: int
    retries: RetriesWaiting
    pace: Pace
    queues: list[QueueLook]
    more_queues: int
    executors: list[Executor] | None
