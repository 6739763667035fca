"""Renders executors, nodes and leases as JSON values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from interfaces.executor_wire import registry_shapes as shapes
from interfaces.render.by_shape import rendered
from scheduler.models import Lease, Node, Reservation
from scheduler.selectors import NO_FIGURES, NodeFigures, nodes_figures, work_lost
from scheduler.services.silence import health_of
from sessions_app.authorization import Actor
from sessions_app.locks import database_now
from sessions_app.selectors.priority_classes import class_names


def executors_json(executors: Sequence[Any]) -> list[dict[str, Any]]:
    """Return executors of `executors_listed` as they are now, in one more statement."""
    now = database_now()
    return [executor_json(each, now) for each in executors]


def executor_json(executor: Any, now: datetime) -> dict[str, Any]:
    """Return an executor of `executors_listed` without its nodes, at `now` of the database."""
    seen = executor.last_seen_at
    return rendered(
        shapes.Executor,
        executor,
        health=health_of(seen, now),
        heartbeat_age=None if seen is None else max((now - seen).total_seconds(), 0.0),
        project_troubles=sorted(
            executor.project_troubles.values(), key=lambda each: each["project"]
        ),
        projects=[project.address for project in executor.projects.all()],
    )


def preemptions_json(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return preemptions, which were read as `preemptions_listed` does; in two more statements."""
    lost = work_lost(rows)
    names = class_names(rank for row in rows for rank in (row.victim_rank, row.taker_rank))
    return [
        rendered(
            shapes.Preemption,
            row,
            executor=row.executor_name,
            victim=row.seen_victim,
            victim_class=names.get(row.victim_rank),
            lost_seconds=lost.get(row.seen_victim),
            taker=row.seen_taker,
            taker_class=names.get(row.taker_rank),
        )
        for row in rows
    ]


def node_json(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node as the executor reported it, with every key present."""
    return {
        "name": node.get("name", ""),
        "allocatable": node.get("allocatable", {}),
        "free": node.get("free", {}),
        "labels": node.get("labels", {}),
        "taints": node.get("taints", []),
    }


def nodes_json(actor: Actor, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Return nodes, as much of them as the actor may see; one statement for all figures."""
    figures = nodes_figures(actor, nodes)
    return [_cluster_node(node, figures, all_of=actor.is_cluster_admin) for node in nodes]


def _cluster_node(
    node: Node, figures: Mapping[int, NodeFigures], *, all_of: bool
) -> dict[str, Any]:
    found = figures.get(node.pk, NO_FIGURES)
    shares = {
        name: [{"value": value, "failures": number} for value, number in getattr(found, name)]
        for name in ("causes", "signatures")
    }
    suspect = node.suspected_until is not None
    return rendered(
        shapes.ClusterNode,
        node,
        executor=node.executor.name,
        state=node.state.value,
        reason=node.reason if all_of and suspect else "",
        quarantined_by=node.quarantined_by if all_of else "",
        quarantine_reason=node.quarantine_reason if all_of else "",
        figures={**found._asdict(), **shares} if all_of else None,
    )


def reservation_json(row: Reservation) -> dict[str, Any]:
    """Return a reservation, which was read as `reservations_listed` does."""
    session = row.session
    return rendered(
        shapes.Reservation,
        row,
        executor=row.executor.name,
        session_name=session.name,
        project=session.project.address,
        queue=session.queue.name,
    )


def lease_json(lease: Lease) -> dict[str, Any]:
    """Return a lease with its session, whose project and queue must be loaded."""
    session = lease.session
    return {
        "session_id": session.pk,
        "session_name": session.name,
        "project": session.project.address,
        "queue": session.queue.name,
        "status": session.status,
        "node": session.node,
        "nodes": lease.nodes or [],
        "template": lease.template,
        "fencing_token": lease.fencing_token,
        "granted_at": lease.granted_at,
        "accepted": lease.accepted,
        "lost_at": lease.lost_at,
        "run_deadline": lease.run_deadline,
    }
