"""Renders executors, nodes and leases as JSON values."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.api import registry_shapes as shapes
from scheduler.models import Lease
from scheduler.services.silence import health_of
from sessions_app.api.render.by_shape import rendered


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


def node_json(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node as the executor reported it, with every key present."""
    return {
        "name": node.get("name", ""),
        "allocatable": node.get("allocatable", {}),
        "free": node.get("free", {}),
        "labels": node.get("labels", {}),
        "taints": node.get("taints", []),
    }


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
        "fencing_token": lease.fencing_token,
        "granted_at": lease.granted_at,
        "accepted": lease.accepted,
        "lost_at": lease.lost_at,
        "run_deadline": lease.run_deadline,
    }
