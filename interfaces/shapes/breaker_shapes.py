"""The shapes of breakers, for the OpenAPI document."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.pages import Page


class Breaker(BaseModel):
    """A signature of failures whose retries wait while its breaker is open.

    It belongs to the cluster (no project), to a project (no queue) or to a queue.
    """

    id: UUID
    project: str | None
    queue: str | None
    signature: str
    title: str
    """What the failure says; "" if it is not known, and for the cluster's breakers."""
    state: Literal["open", "closed"]
    muted: bool
    """Whether it does not open by itself any more."""
    reason: str
    """Why it opened or closed last."""
    chains: int
    """The number of chains that failed so when it opened; 0 if a person opened it."""
    held: int
    """The number of retries that wait for it; of more than 10,000, 10,000."""
    opened_at: datetime
    opened_by: str
    """Who opened it; "" if it opened by itself, and for the cluster's if one is no cluster admin.
    Likewise `closed_by`."""
    closed_at: datetime | None
    closed_by: str
    probes: int
    """The number of retries that it let through as probes since it opened."""
    probe_at: datetime | None
    """When the next probe may begin; null while one is on its way."""
    probe: UUID | None
    """The failed session whose retry is the probe; null for the cluster's if one is no cluster
    admin."""


class BreakerEvent(BaseModel):
    """A breaker opened or closed."""

    at: datetime
    type: Literal["opened", "closed"]
    reason: str
    """Why; "" for the cluster's if a person did it and one is no cluster admin. Likewise `by`."""
    by: str
    """Who did it; "" for the engine itself."""
    chains: int
    """The number of chains that failed so when it opened; 0 if a person opened it."""


class BreakerEventPage(Page[BreakerEvent]):
    """What happened to a breaker, the newest first."""


class BreakerPage(Page[Breaker]):
    """Breakers, those that opened last first."""
