"""What queues and quotas still allow, as a round counts it down."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from base.podspec.quantity import parse
from base.podspec.resources import Amounts
from scheduler.allocation.claims import Claims
from scheduler.allocation.queue_usage import amounts_used
from scheduler.allocation.waiting_lines import BusyQueue
from scheduler.core.fairshare import Limit
from scheduler.locks import claim_queues
from sessions_app.core.quotas import Quota, Quotas


def quota_limit(quota: Quota) -> Limit:
    """Return the limit of a quota, reduced by what is used of it."""
    return Limit(f"quota of {quota.scope}", {quota.name: quota.limit - quota.used})


def queue_limit(resource_limits: Mapping[str, Any], used: Amounts) -> Limit:
    """Return the limit of a queue, reduced by what it uses."""
    limits = {name: parse(value) for name, value in resource_limits.items()}
    return Limit(
        "limit of the queue",
        {name: value - used.get(name, value * 0) for name, value in limits.items()},
    )


def limits_locked(
    queues: Sequence[BusyQueue], quotas: Quotas, claims: Claims
) -> dict[int, list[Limit]]:
    """Return the limits by queue id; omit queues whose limits another round holds.

    The queues of a project share the limits of its quotas. A queue with limits of its own stays
    locked until the grants are written, so that no two rounds grant the same remainder.
    """
    shared: dict[int, Limit] = {}
    limits = {
        queue.id: [
            shared.setdefault(quota.id, quota_limit(quota)) for quota in quotas.of(queue.project_id)
        ]
        for queue in queues
    }
    own = _own_limits({queue.id: queue for queue in queues if queue.resource_limits}, claims)
    for queue in queues:
        if queue.id in own:
            limits[queue.id].append(own[queue.id])
        elif queue.resource_limits:
            del limits[queue.id]
    return limits


def _own_limits(limited: Mapping[int, BusyQueue], claims: Claims) -> dict[int, Limit]:
    locked = claim_queues(limited.keys())
    if not locked:
        return {}
    used = amounts_used(queues=locked)
    limits = {
        queue_id: queue_limit(limited[queue_id].resource_limits, used.get(queue_id, {}))
        for queue_id in locked
    }
    for queue_id, amounts in claims.taken():
        if queue_id in limits:
            limits[queue_id].take(amounts)
    return limits


class LimitsSeen:
    """The limits of queues as read without locks; other rounds may be using them up."""

    def __init__(self, queues: Iterable[BusyQueue], quotas: Quotas):
        known = {queue.id: queue for queue in queues}
        limited = {queue.id for queue in known.values() if queue.resource_limits}
        used = amounts_used(queues=limited) if limited else {}
        # The queues of a project share its quotas.
        shared: dict[int, Limit] = {}
        self._of = {
            queue.id: [
                queue_limit(queue.resource_limits, used.get(queue.id, {})),
                *(
                    shared.setdefault(quota.id, quota_limit(quota))
                    for quota in quotas.of(queue.project_id)
                ),
            ]
            for queue in known.values()
        }

    def exceeded(self, queue_id: int, wanted: Amounts) -> bool:
        """Return whether a limit of a queue leaves too little for one more session."""
        return any(limit.exceeded_by(wanted) for limit in self._of[queue_id])

    def take(self, queue_id: int, wanted: Amounts) -> None:
        """Count a session for which room is made."""
        for limit in self._of.get(queue_id, ()):
            limit.take(wanted)
