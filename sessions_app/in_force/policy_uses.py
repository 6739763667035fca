"""Uses of a policy: the queues that name it, and whether it is the cluster's default."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from sessions_app.models import Queue, RetryPolicy, RetrySettings


@dataclass(frozen=True, slots=True)
class PolicyUses:
    """The uses of a policy: addresses of queues, and whether it is the cluster's default."""

    queues: list[str] = field(default_factory=list)
    default: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the uses as JSON values."""
        return {"queues": self.queues, "default": self.default}


def policies_uses(
    policies: Sequence[RetryPolicy], queues: QuerySet[Queue] | None = None
) -> dict[int, PolicyUses]:
    """Return by policy id which of these queues (None: of all) name each policy."""
    names = sorted({policy.name for policy in policies})
    naming: dict[str, list[Queue]] = defaultdict(list)
    queues = Queue.objects.all() if queues is None else queues
    found = queues.filter(retry_policies__has_any_keys=names).select_related("project__domain")
    for queue in found.order_by("project__domain__name", "project__name", "name"):
        for name in queue.retry_policies:
            naming[name].append(queue)
    default = _default_policy()
    return {
        policy.pk: PolicyUses(
            [str(queue) for queue in naming[policy.name] if _in_scope(policy, queue)],
            policy.name == default and policy.domain_id is None and policy.project_id is None,
        )
        for policy in policies
    }


def _default_policy() -> str:
    cluster = RetrySettings.objects.filter(domain=None, project=None)
    return cluster.values_list("default_policy", flat=True).first() or ""


def _in_scope(policy: RetryPolicy, queue: Queue) -> bool:
    if policy.project_id is not None:
        return policy.project_id == queue.project_id
    return policy.domain_id in {None, queue.project.domain_id}
