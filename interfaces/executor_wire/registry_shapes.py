"""The shapes of the registry of executors, for the OpenAPI document."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.pages import Page
from scheduler.services.silence import Health
from sessions_app.core.states import Status


class ProjectTrouble(BaseModel):
    """The reason why an executor cannot start sessions of one project."""

    project: str
    trouble: str


class ExecutorNodeTemplate(BaseModel):
    """A kind of nodes that the executor's cluster can add, up to `max` of them in all.

    Amounts are Kubernetes quantities. A node is of the template if it has all of its labels.
    """

    name: str
    resources: dict[str, str | float]
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    max: int


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
    warnings: list[str]
    """What it does not do as its administrator asked, although it can start sessions."""
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
    placement: Literal["node", "cluster"]
    """`node`: each pod is bound to the node that was planned. `cluster`: its cluster chooses."""
    avoid_suspects: Literal["off", "retries", "all"]
    """Who avoids its suspect nodes: nobody, retries, or first attempts, too."""
    auto_quarantine: bool
    """Whether its suspect nodes get no leases at all."""
    preemption: Literal["", "off", "dry_run", "on"]
    """Whether running sessions make room for others here; "": as the setting says."""
    labels: dict[str, str]
    """Rules choose the executors of retries by these."""
    node_templates: list[ExecutorNodeTemplate]
    """The nodes that its cluster can add, as its agent declared them."""
    pod_placing: dict[str, Any]
    """The pod defaults of its agent that decide on nodes: tolerations, node selector, affinity."""
    extended_tolerations: bool
    """Whether its cluster adds tolerations for the extended resources that pods ask for."""
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


class NodeShare(BaseModel):
    """A cause or a signature, and how many attempts failed so."""

    value: str
    failures: int


class NodeFigures(BaseModel):
    """The ends of the newest attempts on a node, at most 200 of the last day."""

    attempts: int
    failures: int
    chains: int
    """The number of chains that failed there."""
    causes: list[NodeShare]
    signatures: list[NodeShare]


class ClusterNode(BaseModel):
    """A node of an executor: whether it is suspect or in quarantine, and how attempts end there."""

    executor: str
    name: str
    state: Literal["open", "suspect", "quarantined"]
    """`suspect`: sessions that avoid it use it only if nothing else fits. `quarantined`: it gets no
    leases."""
    present: bool
    """Whether its executor reports it."""
    suspected_at: datetime | None
    """When it became suspect, the last time."""
    suspected_until: datetime | None
    """When the suspicion ends; null: the node is not suspect."""
    reason: str
    """Why it is suspect; only for cluster admins."""
    quarantined_at: datetime | None
    """Since when it is in quarantine by an operator."""
    quarantined_by: str
    """Only for cluster admins, as the next two."""
    quarantine_reason: str
    figures: NodeFigures | None


class ClusterNodePage(Page[ClusterNode]):
    """Nodes by executor and name."""


class Reservation(BaseModel):
    """Nodes of an executor that are kept free for a session that waited for too long, or for which
    others make room."""

    executor: str
    session_id: UUID
    session_name: str
    project: str
    queue: str
    nodes: list[str]
    since: datetime


class Preemption(BaseModel):
    """A session that made room for another one, or would have in a dry run."""

    executor: str
    planned_at: datetime
    rule: Literal["priority", "fair_share"]
    dry_run: bool
    nodes: list[str]
    """Where room was made, by all victims of the same plan together."""
    victim: UUID | None
    """Null if you may not see it."""
    victim_class: str | None
    """Its priority class; null if that was deleted."""
    lost_seconds: float | None
    """The work that it lost, in pods x seconds since its start or its last checkpoint. Null until
    it has ended, in a dry run, and if you may not see it."""
    taker: UUID | None
    """The session for which room was made. Null if you may not see it."""
    taker_class: str | None
    """Its priority class; null if that was deleted."""


class PreemptionPage(Page[Preemption]):
    """Preemptions, newest first."""


class ReservationPage(Page[Reservation]):
    """Reservations, oldest first."""


class ExecutorWithNodes(Executor):
    """An executor with all of its nodes, and what they are kept free for."""

    nodes: list[ExecutorNode]
    reservations: list[Reservation]


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
    nodes: list[str]
    """The planned nodes, one a rank; empty if the executor's cluster chooses."""
    template: str
    """The node template of which its cluster has to add nodes for it; "" for none."""
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
