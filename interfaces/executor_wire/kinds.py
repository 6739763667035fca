"""Executors and their nodes: what can be sent, the operations, and the declarations."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from django.db.models import QuerySet
from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictStr

from interfaces.executor_wire import registry_shapes as shapes
from interfaces.executor_wire.registry_render import (
    executors_json,
    node_json,
    nodes_json,
    reservation_json,
)
from interfaces.kinds.resource import Call, Listing, Resource, showing
from interfaces.requests.bodies import MAX_REASON, CordonBody, ProjectAddress
from interfaces.requests.queries import PageQuery, Text
from interfaces.requests.strict import StrictModel
from retry.policies.fields import Label, Labels
from scheduler.models import Executor, Node, NodeState
from scheduler.selectors import (
    executor_get,
    executors_listed,
    node_get,
    nodes_by_failures,
    projects_named,
    reservations_listed,
)
from scheduler.services.drain import Drained, executor_drain
from scheduler.services.nodes.acts import node_quarantine, node_release
from scheduler.services.registry import (
    LONGEST,
    executor_cordon,
    executor_create,
    executor_delete,
    executor_save,
    executor_token_renew,
    executor_uncordon,
)
from scheduler.services.silence import Health, health_condition
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.locks import database_now
from sessions_app.models import Project

MAX_PROJECTS = 1_000
_FIELDS = {
    *("unconfirmed_after", "placement", "avoid_suspects", "auto_quarantine"),
    *("preemption", "labels"),
}


class ExecutorFilter(PageQuery):
    """The filters of `GET /executors/`."""

    cordoned: bool | None = None
    health: Annotated[Health, BeforeValidator(str.lower)] | None = None
    driver: Text | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the executors that match the filters."""
        if self.cordoned is not None:
            rows = rows.filter(cordoned=self.cordoned)
        if self.driver is not None:
            rows = rows.filter(driver=self.driver)
        if self.health is not None:
            rows = rows.filter(health_condition(self.health, database_now()))
        return rows


class NodeFilter(PageQuery):
    """The filters of `GET /nodes/`."""

    executor: Text | None = None
    state: Annotated[NodeState, BeforeValidator(str.lower)] | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the nodes that match the filters."""
        if self.executor is not None:
            rows = rows.filter(executor__name=self.executor)
        return rows if self.state is None else rows.filter(self.state.condition)


class ExecutorFields(StrictModel):
    """The changeable fields of an executor."""

    projects: Annotated[list[ProjectAddress], Field(max_length=MAX_PROJECTS)] = []
    """The only projects that it serves, as `domain/name`; empty for all."""
    unconfirmed_after: Annotated[StrictFloat, Field(ge=0, le=LONGEST)] | None = None
    """Seconds until a lost run counts as ended without confirmation; null: the setting, 0:
    never."""

    placement: Literal["node", "cluster"] = "node"
    """`node`: each pod is bound to the node that was planned for it. `cluster`: the executor's
    cluster alone chooses nodes."""
    avoid_suspects: Literal["off", "retries", "all"] = "off"
    """The attempts that avoid its suspect nodes: none, retries, or all. `off`: none of its nodes is
    suspected."""
    auto_quarantine: StrictBool = False
    """If true, its suspect nodes get no leases at all."""
    labels: Labels = {}
    """Rules choose the executors of retries by these (`placement.executors.labels`)."""

    preemption: Literal["", "off", "dry_run", "on"] = ""
    """`on`: running sessions make room for others here; `dry_run` only records which would. Empty:
    as the setting says."""

    def served(self) -> list[Project] | None:
        """Return the projects, None if not sent. Raises `InvalidInput` if one is missing."""
        return projects_named(self.projects) if "projects" in self.model_fields_set else None


class ExecutorCreate(ExecutorFields):
    """The body of `POST /executors/`."""

    name: Label


class DrainBody(StrictModel):
    """The body of `POST /executors/{name}/drain/`, which may be empty."""

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """The reason of the cordon, also shown on sessions that ran there."""
    force: StrictBool = False
    """If true, interactive and inference sessions end, too, which are never retried."""


class QuarantineBody(StrictModel):
    """The reason of a quarantine."""

    reason: Annotated[StrictStr, Field(min_length=1, max_length=MAX_REASON)]


def _found(actor: Actor, name: str) -> Any:
    return executor_get(actor, name, Action.EXECUTOR_WRITE)


class WithToken(NamedTuple):
    """An executor, and its new token, which is shown only once."""

    executor: Any
    token: str


class DrainedExecutor(NamedTuple):
    """An executor, and the counts of what one drain call did to it."""

    name: str
    counts: Drained


def create(actor: Actor, body: Mapping[str, Any]) -> WithToken:
    """Create an executor."""
    authorize(actor, Action.EXECUTOR_WRITE)
    asked = ExecutorCreate.model_validate(body)
    executor = Executor(name=asked.name, **{field: getattr(asked, field) for field in _FIELDS})
    token = executor_create(executor, projects=asked.served() or [], by=actor.name)
    return WithToken(_found(actor, asked.name), token)


def change(actor: Actor, name: str, body: Mapping[str, Any]) -> Any:
    """Change the fields that the body names."""
    executor = _found(actor, name)
    asked = ExecutorFields.model_validate(body)
    fields = asked.model_fields_set & _FIELDS
    for field in fields:
        setattr(executor, field, getattr(asked, field))
    executor_save(executor, by=actor.name, fields=fields, projects=asked.served())
    return _found(actor, name)


def delete(actor: Actor, name: str) -> None:
    """Delete an executor without leases, and its tokens."""
    executor_delete(_found(actor, name), by=actor.name)


def cordon(actor: Actor, name: str, body: Mapping[str, Any]) -> Any:
    """Cordon the executor: it gets no new leases, its runs continue."""
    executor = _found(actor, name)
    executor_cordon(executor, reason=CordonBody.model_validate(body).reason, by=actor.name)
    return _found(actor, name)


def uncordon(actor: Actor, name: str) -> Any:
    """Uncordon the executor."""
    executor_uncordon(_found(actor, name), by=actor.name)
    return _found(actor, name)


def drain(actor: Actor, name: str, body: Mapping[str, Any]) -> DrainedExecutor:
    """Cordon the executor and preempt its runs, until it is uncordoned."""
    _found(actor, name)
    asked = DrainBody.model_validate(body)
    counts = executor_drain(name, by=actor.name, reason=asked.reason, force=asked.force)
    return DrainedExecutor(name, counts)


def quarantine(actor: Actor, executor: str, name: str, body: Mapping[str, Any]) -> Node:
    """Give a node no leases, until it is released."""
    authorize(actor, Action.NODE_WRITE)
    reason = QuarantineBody.model_validate(body).reason
    found = executor_get(actor, executor, Action.NODE_WRITE)
    node_quarantine(found, name, reason=reason, by=actor.name)
    return node_get(actor, executor, name, Action.NODE_WRITE)


def release(actor: Actor, executor: str, name: str) -> Node:
    """End the quarantine and the suspicion of a node."""
    node_release(executor_get(actor, executor, Action.NODE_WRITE), name, by=actor.name)
    return node_get(actor, executor, name, Action.NODE_WRITE)


def token_renew(actor: Actor, name: str) -> WithToken:
    """Create a new token, and revoke all others of this executor."""
    executor = _found(actor, name)
    return WithToken(executor, executor_token_renew(executor, by=actor.name))


def _all(actor: Actor) -> QuerySet[Any]:
    return executors_listed(actor).defer("nodes")


def _with_nodes(actor: Actor, executor: Any) -> dict[str, Any]:
    kept = reservations_listed(actor).filter(executor=executor)
    nodes = [node_json(node) for node in executor.nodes]
    (body,) = executors_json([executor])
    return {**body, "nodes": nodes, "reservations": [reservation_json(each) for each in kept]}


def _with_token(made: WithToken) -> dict[str, Any]:
    (body,) = executors_json([made.executor])
    return {**body, "token": made.token}


EXECUTOR = Resource(
    name="executor",
    many="executors",
    address="executors",
    place="<str:name>",
    at=attrgetter("name"),
    shape=shapes.Executor,
    page=shapes.ExecutorPage,
    render=lambda _actor, rows: executors_json(rows),
    listing=Listing(
        Action.EXECUTOR_READ,
        "List the executors by name, without their nodes.",
        _all,
        ["name"],
        ExecutorFilter,
    ),
    read=Call(
        Action.EXECUTOR_READ,
        "One executor with its nodes and their reservations.",
        executor_get,
        shape=shapes.ExecutorWithNodes,
        show=_with_nodes,
    ),
    create=Call(
        Action.EXECUTOR_WRITE,
        "Create an executor. Its token is shown only once.",
        create,
        ExecutorCreate,
        shape=shapes.ExecutorWithToken,
        show=showing(_with_token),
        row=attrgetter("executor"),
    ),
    patch=Call(Action.EXECUTOR_WRITE, "Change the given fields.", change, ExecutorFields),
    delete=Call(
        Action.EXECUTOR_WRITE, "Delete an executor without leases, and its tokens.", delete
    ),
    acts={
        "cordon": Call(
            Action.EXECUTOR_WRITE,
            "Cordon the executor: it gets no new leases. Its running sessions continue.",
            cordon,
            CordonBody,
        ),
        "uncordon": Call(
            Action.EXECUTOR_WRITE,
            "Uncordon the executor. An executor that is not cordoned does not change.",
            uncordon,
        ),
        "drain": Call(
            Action.EXECUTOR_WRITE,
            "Drain the executor: cordon it and preempt its sessions.\n\n"
            "When the call returns, the runs are being stopped. `lease_count` of the executor "
            "shows how\nmany are left. The call can be repeated.",
            drain,
            DrainBody,
            shape=shapes.DrainedExecutor,
            show=showing(lambda done: {"name": done.name, **done.counts._asdict()}),
        ),
        "token": Call(
            Action.EXECUTOR_WRITE,
            "Create a new token, which is shown only once, and revoke all others of this "
            "executor.\n\n"
            "An agent with an older token gets 401 from then on. Give it the new token and "
            "restart it\nbefore its leases expire.",
            token_renew,
            shape=shapes.ExecutorToken,
            show=showing(lambda made: {"name": made.executor.name, "token": made.token}),
            row=attrgetter("executor"),
            status=201,
            once=True,
        ),
    },
)
NODE = Resource(
    name="node",
    many="nodes",
    address="nodes",
    place="<str:executor>/<str:name>",
    shape=shapes.ClusterNode,
    page=shapes.ClusterNodePage,
    render=nodes_json,
    listing=Listing(
        Action.NODE_LIST,
        "List the nodes of executors, with how attempts ended there, and which are "
        "suspect.\n\n"
        "Cluster admins get those first of whose attempts the largest part failed, others by "
        "address.",
        nodes_by_failures,
        ["place"],
        NodeFilter,
    ),
    read=Call(Action.NODE_READ, "One node.", node_get),
    acts={
        "quarantine": Call(
            Action.NODE_WRITE,
            "Put a node into quarantine: it gets no leases until it is released. What runs "
            "there goes\non.",
            quarantine,
            QuarantineBody,
        ),
        "release": Call(
            Action.NODE_WRITE,
            "End the quarantine and the suspicion of a node. What it did before counts no longer.",
            release,
        ),
    },
)
