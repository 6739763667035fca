"""What operators decide about nodes: quarantine, and release."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from scheduler.locks import lock_node, lock_node_rows
from scheduler.models import Executor, Node
from scheduler.services.nodes.telling import releases_tell
from sessions_app import wakeups
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.db.writes import Writes, atomic_writes
from sessions_app.locks import database_now
from sessions_app.services.write.audit import AuditRow, audit_append

_QUARANTINE = ("quarantined_at", "quarantined_by", "quarantine_reason")
_SUSPICION = ("suspected_until", "cleared_at", "counted_from")


def node_quarantine(executor: Executor, name: str, *, reason: str, by: str) -> Node:
    """Give a node no leases until it is released; what runs there goes on.

    Raises `NotFound` if the executor has no such node, `InvalidInput` without a reason.
    """
    _require(reason)
    with atomic_writes() as writes:
        node = _locked(executor, name)
        _quarantine(writes, [node], reason=reason, by=by)
    return node


def nodes_quarantine(nodes: Collection[int], *, reason: str, by: str) -> int:
    """Do the same with many nodes, given by their ids, in a fixed number of statements.

    Return the number of those that changed. Raises `InvalidInput` without a reason.
    """
    _require(reason)
    with atomic_writes() as writes:
        return _quarantine(writes, lock_node_rows(nodes), reason=reason, by=by)


def _require(reason: str) -> None:
    if not reason.strip():
        raise InvalidInput({"reason": ["Say why it is in quarantine."]})


def _quarantine(writes: Writes, nodes: Sequence[Node], *, reason: str, by: str) -> int:
    changed = [
        node for node in nodes if node.quarantined_at is None or node.quarantine_reason != reason
    ]
    if changed:
        now = database_now()
        for node in changed:
            node.quarantined_at = node.quarantined_at or now
            node.quarantined_by, node.quarantine_reason = by, reason
        Node.objects.bulk_update(changed, _QUARANTINE)
        _audit(writes, "node.quarantine", changed, {"reason": reason}, by=by, now=now)
    return len(changed)


def node_release(executor: Executor, name: str, *, by: str) -> Node:
    """End the quarantine and the suspicion of a node. What it did before counts no longer.

    A node that is neither suspect nor in quarantine does not change. Raises `NotFound`.
    """
    with atomic_writes() as writes:
        node = _locked(executor, name)
        _release(writes, [node], by=by)
    return node


def nodes_release(nodes: Collection[int], *, by: str) -> int:
    """Do the same with many nodes, given by their ids, in a fixed number of statements.

    Return the number of those that changed.
    """
    with atomic_writes() as writes:
        return _release(writes, lock_node_rows(nodes), by=by)


def _release(writes: Writes, nodes: Sequence[Node], *, by: str) -> int:
    suspect = [node for node in nodes if node.suspected_until is not None]
    changed = [
        node
        for node in nodes
        if node.quarantined_at is not None or node.suspected_until is not None
    ]
    if changed:
        now = database_now()
        for node in changed:
            node.quarantined_at, node.quarantined_by, node.quarantine_reason = None, "", ""
            node.counted_from = now
        for node in suspect:
            node.suspected_until, node.cleared_at = None, now
        Node.objects.bulk_update(changed, (*_QUARANTINE, *_SUSPICION))
        if suspect:
            releases_tell(suspect, now=now)
        _audit(writes, "node.release", changed, {}, by=by, now=now)
        wakeups.work_after_commit()
    return len(changed)


def _audit(
    writes: Writes,
    verb: str,
    nodes: Sequence[Node],
    details: dict[str, Any],
    *,
    by: str,
    now: datetime,
) -> None:
    rows = [AuditRow(by, verb, "node", node.address, details) for node in nodes]
    audit_append(writes, rows, now=now)


def _locked(executor: Executor, name: str) -> Node:
    """Lock the row of a node; make it if the sweep has not yet."""
    found = lock_node(executor.pk, name)
    if found is None:
        if not any(node.get("name") == name for node in executor.nodes):
            raise NotFound(f"executor {executor.name} has no node {name}")
        new = Node(executor=executor, name=name, address=f"{executor.name}/{name}", present=True)
        Node.objects.bulk_create([new], ignore_conflicts=True)
        found = lock_node(executor.pk, name)
    if found is None:
        raise NotFound(f"executor {executor.name} has no node {name}")
    return found
