"""What operators decide about nodes: quarantine, and release."""

from django.db import transaction

from scheduler.locks import lock_node
from scheduler.models import Executor, Node
from scheduler.services.nodes.telling import release_tell
from sessions_app import wakeups
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.locks import database_now
from sessions_app.services.write.audit import AuditRow, audit_append

_QUARANTINE = ("quarantined_at", "quarantined_by", "quarantine_reason")
_SUSPICION = ("suspected_until", "cleared_at", "counted_from")


def node_quarantine(executor: Executor, name: str, *, reason: str, by: str) -> Node:
    """Give a node no leases until it is released; what runs there goes on.

    Raises `NotFound` if the executor has no such node, `InvalidInput` without a reason.
    """
    if not reason.strip():
        raise InvalidInput({"reason": ["Say why it is in quarantine."]})
    with transaction.atomic():
        node = _locked(executor, name)
        if node.quarantined_at is None or node.quarantine_reason != reason:
            now = database_now()
            node.quarantined_at = node.quarantined_at or now
            node.quarantined_by, node.quarantine_reason = by, reason
            node.save(update_fields=_QUARANTINE)
            details = {"reason": reason}
            audit_append([AuditRow(by, "node.quarantine", "node", node.address, details)], now=now)
    return node


def node_release(executor: Executor, name: str, *, by: str) -> Node:
    """End the quarantine and the suspicion of a node. What it did before counts no longer.

    A node that is neither suspect nor in quarantine does not change. Raises `NotFound`.
    """
    with transaction.atomic():
        node = _locked(executor, name)
        if node.quarantined_at is None and node.suspected_until is None:
            return node
        now = database_now()
        node.quarantined_at, node.quarantined_by, node.quarantine_reason = None, "", ""
        if suspect := node.suspected_until is not None:
            node.suspected_until, node.cleared_at = None, now
        node.counted_from = now
        node.save(update_fields=(*_QUARANTINE, *_SUSPICION))
        if suspect:
            release_tell(node, now=now)
        audit_append([AuditRow(by, "node.release", "node", node.address)], now=now)
        wakeups.work_after_commit()
    return node


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
