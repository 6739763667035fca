"""GraphQL: executors, their leases and nodes, and the overview of current work."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene

from interfaces.executor_wire import overview_shapes, registry_shapes
from interfaces.executor_wire.kinds import EXECUTOR, NODE
from interfaces.executor_wire.overview import OverviewFilter, overview_json
from interfaces.executor_wire.preemptions import PreemptionFilter
from interfaces.executor_wire.registry import ReservationFilter
from interfaces.executor_wire.registry_render import (
    executors_json,
    lease_json,
    node_json,
    preemptions_json,
    reservation_json,
)
from interfaces.graphql.connections import (
    Page,
    Slice,
    connection_to,
    one,
    page_of,
    pages,
    pages_below,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import SessionStatus
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.kinds import (
    BY_NAME,
    Kind,
    KindNode,
    Names,
    Naming,
    one_of,
    pages_of,
)
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.peers import Peer, Peers, one_by_one
from interfaces.graphql.scalars import BigInt
from interfaces.graphql.sessions import Session, sessions_linked
from interfaces.graphql.shapes import arguments_of, shape_of, stands_for, type_of
from interfaces.http.paging import RowCursor
from scheduler.models import Lease
from scheduler.overview import overview
from scheduler.selectors import (
    executors_leases,
    executors_nodes,
    preemptions_listed,
    reservations_listed,
)
from sessions_app.authorization import Actor

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


class Executor(_ExecutorShape, KindNode):
    """An executor: the agent that runs sessions in one cluster."""

    of = EXECUTOR
    nodes = pages(ExecutorNodeConnection, "Its nodes by name.")
    leases = pages(ExecutorLeaseConnection, "Its leases, oldest first.")

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
EXECUTORS = Kind(EXECUTOR, Executor, BY_NAME)
_OF_NODE = {
    "executor": graphene.String(required=True),
    "name": graphene.String(required=True),
}


def _node_names(key: str) -> Names:
    executor, _, name = key.partition("/")
    return {"executor": executor, "name": name}


NODES = Kind(
    NODE,
    ClusterNode,
    Naming(_OF_NODE, lambda given: {each: given.pop(each) for each in _OF_NODE}, _node_names),
)


class ExecutorQueries:
    """The root fields for executors and the overview."""

    executor = one_of(EXECUTORS, "One executor.", name=graphene.String(required=True))
    executors = pages_of(EXECUTORS, ExecutorConnection, "The executors by name.")
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
    cluster_node = one_of(NODES, "One node of an executor.", **_OF_NODE)
    cluster_nodes = pages_of(
        NODES,
        ClusterNodeConnection,
        "The nodes of executors, and which of them are suspect; by executor and name, for cluster "
        "admins by the part of attempts that failed there first.",
    )
    overview = one(
        type_of(overview_shapes.Overview),
        "The current state: what waits, what runs, the throughput and the causes of failures.",
        **arguments_of(OverviewFilter),
    )

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
    def resolve_overview(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        seen = overview(actor_of(info), read_arguments(OverviewFilter, asked).project)
        rows = seen.executors
        executors = None if rows is None else Peers(Executor, rows, executors_json).each()
        return {**overview_json(seen), "executors": executors}


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
