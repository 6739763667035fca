"""The shapes of failures, for the OpenAPI document."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.pages import ForwardPage
from retry.evidence.causes import RetryCause


class FailureShare(BaseModel):
    """A queue, an image or a node, and how many attempts failed so with it."""

    value: str
    sessions: int


class Failure(BaseModel):
    """Failures of one kind in a project: their signature, and their figures of the asked time."""

    key: str
    """The signature: `failure_signature` of the sessions. `other` stands for what was new when too
    much was."""
    project: str
    title: str
    cause: RetryCause
    exit_code: int | None
    """That of all such failures; null where it makes no difference, or where there is none."""
    muted: bool
    first_seen: datetime
    """The first and the last failure ever, not only of the asked time."""
    last_seen: datetime
    example: UUID
    """The id of the newest session that failed so."""
    sessions: int
    """The number of attempts that failed so."""
    chains: int
    """The number of chains for which it was the first time."""
    recovered_chains: int
    """The number of chains that succeeded after they had failed so."""
    lost_run_seconds: float
    """The run time of the failed attempts."""
    sparkline: list[int]
    """The failed attempts in each 24th of the time."""
    queues: list[FailureShare]
    images: list[FailureShare]
    nodes: list[FailureShare]


class FailurePage(ForwardPage[Failure]):
    """A page of failures."""
