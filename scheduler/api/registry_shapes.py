"""The shapes of the registry of executors, for the OpenAPI document."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from scheduler.services.silence import Health
from sessions_app.api.shapes.pages import Page
from sessions_app.core.states import Status


class ProjectTrouble(BaseModel):
    """The reason why an executor cannot start sessions of one project."""

    project: str
    trouble: str


class Executor(BaseModel):
    """An executor: the agent that runs sessions in one cluster."""

    name: str
    health: Health
    """`late` after 30 s without a heartbeat, `silent` after 60 s."""
    heartbeat_age: float | None
    """Seconds since the last heartbeat; null before the first."""
    last_seen_at: datetime | None
    trouble: str
    """Why it cannot start anything now, in its own words; "" if nothing is wrong."""
    project_troubles: list[ProjectTrouble]
    """Projects whose sessions it cannot start now, if any wait or start there."""
    incarnation: int
    """Number of the agent's start; grows with each one."""
    driver: str
    max_sessions: int
    lease_count: int
    node_count: int
    projects: list[str]
    """The only projects that it serves; empty for all."""
    unconfirmed_after: float | None
    """Seconds; null: the server's setting, 0: never."""
    cordoned: bool
    cordon_reason: str
    draining_since: datetime | None
    created_at: datetime


class ExecutorPage(Page[Executor]):
    """Executors by name."""


class ExecutorNode(BaseModel):
    """A node as the executor last reported it. Amounts are Kubernetes quantities."""

    name: str
    allocatable: dict[str, str | float]
    free: dict[str, str | float]
    labels: dict[str, str]
    taints: list[dict[str, Any]]


class ExecutorWithNodes(Executor):
    """An executor with all of its nodes."""

    nodes: list[ExecutorNode]


class ExecutorWithToken(Executor):
    """A new executor and its token. The token is shown only once."""

    token: str


class ExecutorToken(BaseModel):
    """The new and only token of an executor. It is shown only once."""

    name: str
    token: str


class ExecutorLease(BaseModel):
    """The right of an executor to run a session."""

    session_id: UUID
    session_name: str
    project: str
    queue: str
    status: Status
    node: str
    fencing_token: int
    granted_at: datetime
    accepted: bool
    lost_at: datetime | None
    """When its executor had been silent for too long."""
    run_deadline: datetime | None


class ExecutorLeasePage(Page[ExecutorLease]):
    """Leases, oldest first."""


class DrainedExecutor(BaseModel):
    """The result of a drain."""

    name: str
    asked: int
    """The number of runs that this call asked to stop."""
    returned: int
    """Leases that the executor had not accepted: they went back to their queues, uncounted."""
    left: int
    """The number of leases that the executor still has."""
    kept: int
    """The leases among `left` whose interactive and inference sessions run on to their own end."""
