"""GraphQL: executors, their leases and nodes, and the overview of current work."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene

from scheduler.api import overview_shapes, registry_shapes
from scheduler.api.kinds import ExecutorFilter, NodeFilter
from scheduler.api.overview import OverviewFilter, overview_json
from scheduler.api.preemptions import PreemptionFilter
from scheduler.api.registry import ReservationFilter
from scheduler.api.registry_render import (
    executors_json,
    lease_json,
    node_json,
    nodes_json,
    preemptions_json,
    reservation_json,
)
from scheduler.models import Lease, Node
from scheduler.overview import overview
from scheduler.selectors import (
    executor_get,
    executors_leases,
    executors_listed,
    executors_nodes,
    node_get,
    nodes_by_failures,
    preemptions_listed,
    reservations_listed,
)
from sessions_app.api.graphql.connections import (
    Page,
    Slice,
    connection_to,
    one,
    page_of,
    pages,
    pages_below,
    slice_of,
)
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.enums import SessionStatus
from sessions_app.api.graphql.errors import read_arguments
from sessions_app.api.graphql.nodes import RestNode, RestObject, found_by
from sessions_app.api.graphql.peers import Peer, Peers, one_by_one, single_peer
from sessions_app.api.graphql.scalars import BigInt
from sessions_app.api.graphql.sessions import Session, sessions_linked
from sessions_app.api.graphql.shapes import arguments_of, shape_of, stands_for, type_of
from sessions_app.api.http.paging import RowCursor
from sessions_app.authorization import Action, Actor

_ExecutorShape: Any = shape_of(registry_shapes.Executor, kinds={"incarnation": BigInt})
_NodeShape: Any = shape_of(registry_shapes.ExecutorNode)
_ClusterNodeShape: Any = shape_of(registry_shapes.ClusterNode)
_ReservationShape: Any = shape_of(registry_shapes.Reservation)
_PreemptionShape: Any = shape_of(registry_shapes.Preemption)
_LeaseShape: Any = shape_of(
    registry_shapes.ExecutorLease,
    kinds={"fencing_token": BigInt, "status": SessionStatus},
)


class ExecutorNode(_NodeShape, RestObject):
    """A node as the executor last reported it. Amounts are Kubernetes quantities."""


class ClusterNode(_ClusterNodeShape, RestObject):
    """A node of an executor: whether it is suspect or in quarantine, and how attempts end there."""


class Reservation(_ReservationShape, RestObject):
    """Nodes of an executor that are kept free for a session that waited for too long, or for which
    others make room."""


class Preemption(_PreemptionShape, RestObject):
    """A session that made room for another one, or would have in a dry run."""


class ExecutorLease(_LeaseShape, RestObject):
    """The right of an executor to run a session."""

    session = graphene.Field(Session, required=True)

    @staticmethod
    def resolve_session(source: Peer[Lease], info: Any) -> Any:
        return source.ask("session", partial(_sessions, actor_of(info)))


ExecutorNodeConnection = connection_to(ExecutorNode)
ClusterNodeConnection = connection_to(ClusterNode)
ReservationConnection = connection_to(Reservation)
PreemptionConnection = connection_to(Preemption)
ExecutorLeaseConnection = connection_to(ExecutorLease)


class Executor(_ExecutorShape, RestNode):
    """An executor: the agent that runs sessions in one cluster."""

    nodes = pages(ExecutorNodeConnection, "Its nodes by name.")
    leases = pages(ExecutorLeaseConnection, "Its leases, oldest first.")

    @staticmethod
    def resolve_id(source: Peer[Any], _info: Any) -> str:
        """Return the executor's name, which is its key."""
        return str(source.row.name)

    @staticmethod
    def resolve_nodes(source: Peer[Any], info: Any, **asked: Any) -> dict[str, Any]:
        """Return a page of the executor's nodes."""
        page = Page.of(asked)
        load = partial(_nodes, actor_of(info), page)
        return pages_below(source, "nodes", page, load, _node_peers)

    @staticmethod
    def resolve_leases(source: Peer[Any], info: Any, **asked: Any) -> dict[str, Any]:
        """Return a page of the executor's leases."""
        page = Page.of(asked)
        load = partial(_leases, actor_of(info), page)
        return pages_below(source, "leases", page, load, _lease_peers)


stands_for(registry_shapes.Executor, Executor)
ExecutorConnection = connection_to(Executor)


class ExecutorQueries:
    """The root fields for executors and the overview."""

    executor = one(Executor, "One executor.", name=graphene.String(required=True))
    executors = pages(ExecutorConnection, "The executors by name.", **arguments_of(ExecutorFilter))
    reservations = pages(
        ReservationConnection,
        "The nodes that are kept free for sessions that waited for too long, or for which others "
        "make room, oldest first.",
        **arguments_of(ReservationFilter),
    )
    preemptions = pages(
        PreemptionConnection,
        "The sessions that made room for others, or would have in a dry run, newest first.",
        **arguments_of(PreemptionFilter),
    )
    cluster_node = one(
        ClusterNode,
        "One node of an executor.",
        executor=graphene.String(required=True),
        name=graphene.String(required=True),
    )
    cluster_nodes = pages(
        ClusterNodeConnection,
        "The nodes of executors, and which of them are suspect; by executor and name, for cluster "
        "admins by the part of attempts that failed there first.",
        **arguments_of(NodeFilter),
    )
    overview = one(
        type_of(overview_shapes.Overview),
        "The current state: what waits, what runs, the throughput and the causes of failures.",
        **arguments_of(OverviewFilter),
    )

    @staticmethod
    def resolve_executor(_root: None, info: Any, name: str) -> Peer[Any]:
        return executor_found(actor_of(info), name)

    @staticmethod
    def resolve_executors(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        rows, actor = executors_listed(actor_of(info)).defer("nodes"), actor_of(info)
        wanted = read_arguments(ExecutorFilter, asked).apply(actor, rows)
        return page_of(Executor, wanted, RowCursor("name"), page, executors_json)

    @staticmethod
    def resolve_reservations(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, rows = Page.of(asked), reservations_listed(actor_of(info))
        wanted = read_arguments(ReservationFilter, asked).apply(actor_of(info), rows)
        return page_of(Reservation, wanted, RowCursor("id"), page, _reservations)

    @staticmethod
    def resolve_preemptions(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, rows = Page.of(asked), preemptions_listed(actor_of(info))
        wanted = read_arguments(PreemptionFilter, asked).apply(actor_of(info), rows)
        return page_of(Preemption, wanted, RowCursor("-id"), page, preemptions_json)

    @staticmethod
    def resolve_cluster_node(_root: None, info: Any, executor: str, name: str) -> Peer[Node]:
        return node_found(actor_of(info), executor, name)

    @staticmethod
    def resolve_cluster_nodes(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        wanted = read_arguments(NodeFilter, asked).apply(actor, nodes_by_failures(actor))
        return page_of(ClusterNode, wanted, RowCursor("place"), page, partial(nodes_json, actor))

    @staticmethod
    def resolve_overview(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        seen = overview(actor_of(info), read_arguments(OverviewFilter, asked).project)
        rows = seen.executors
        executors = None if rows is None else Peers(Executor, rows, executors_json).each()
        return {**overview_json(seen), "executors": executors}


@found_by("Executor")
def executor_found(actor: Actor, name: str) -> Peer[Any]:
    """Return the executor with this name."""
    return single_peer(Executor, executor_get(actor, name, Action.EXECUTOR_READ), executors_json)


def node_found(actor: Actor, executor: str, name: str) -> Peer[Node]:
    """Return the node of this executor with this name."""
    found = node_get(actor, executor, name)
    return single_peer(ClusterNode, found, partial(nodes_json, actor))


def _sessions(actor: Actor, rows: Sequence[Lease]) -> list[Any]:
    return sessions_linked(actor, [row.session_id for row in rows])


def _nodes(actor: Actor, page: Page, rows: Sequence[Any]) -> list[Slice[Any]]:
    found = executors_nodes(actor, rows, page.after or "", page.first + 1)
    return [slice_of(each, page, [node["name"] for node in each]) for each in found]


def _reservations(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [reservation_json(row) for row in rows]


def _node_peers(rows: Sequence[Any]) -> Peers[Any]:
    return Peers(ExecutorNode, rows, one_by_one(node_json))


def _leases(actor: Actor, page: Page, rows: Sequence[Any]) -> list[Slice[Lease]]:
    order = RowCursor("fencing_token")
    found = executors_leases(actor, rows, order.number(page.after), page.first + 1)
    return [slice_of(each, page, order.cursors(each)) for each in found]


def _lease_peers(rows: Sequence[Lease]) -> Peers[Lease]:
    return Peers(ExecutorLease, rows, one_by_one(lease_json))
