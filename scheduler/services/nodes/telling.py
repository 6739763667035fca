"""What others are told of suspicions: webhooks, and the audit log."""

from collections.abc import Collection
from datetime import datetime

from scheduler.models import Executor, Node
from sessions_app.audit.context import ENGINE
from sessions_app.db.writes import Writes
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.webhooks.cluster_events import ClusterEvent, cluster_events_tell
from sessions_app.webhooks.rules import NODE_CLEARED, NODE_SUSPECT


def suspicions_tell(writes: Writes, nodes: Collection[int], *, began: bool, now: datetime) -> None:
    """Tell that nodes have become suspect, or (not `began`) are suspect no longer.

    Why a node is suspect stands in the audit log only: it counts sessions of all tenants.
    """
    rows = list(Node.objects.filter(pk__in=nodes).select_related("executor").order_by("address"))
    _webhooks_tell(rows, began=began, now=now)
    action = NODE_SUSPECT if began else NODE_CLEARED
    facts = [{"reason": row.reason, "until": row.suspected_until} if began else {} for row in rows]
    audit_append(
        writes,
        [
            AuditRow(ENGINE, action, "node", row.address, each)
            for row, each in zip(rows, facts, strict=True)
        ],
        now=now,
    )


def releases_tell(nodes: Collection[Node], *, now: datetime) -> None:
    """Tell webhooks that a person has ended suspicions; the audit log has it from the caller."""
    _webhooks_tell(nodes, began=False, now=now)


def _webhooks_tell(nodes: Collection[Node], *, began: bool, now: datetime) -> None:
    served: dict[int, list[int]] = {}
    through = Executor.projects.through.objects.filter(
        executor__in={node.executor_id for node in nodes}
    )
    for executor, project in through.values_list("executor_id", "project_id"):
        served.setdefault(executor, []).append(project)
    cluster_events_tell(
        [
            ClusterEvent(
                NODE_SUSPECT if began else NODE_CLEARED,
                {
                    "executor": node.executor.name,
                    "node": node.name,
                    "state": node.state.value,
                    "suspected_at": node.suspected_at,
                    "suspected_until": node.suspected_until,
                    "cleared_at": None if began else node.cleared_at,
                },
                served.get(node.executor_id),
            )
            for node in nodes
        ],
        now=now,
    )
