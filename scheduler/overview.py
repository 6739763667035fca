"""The overview of current work, read with a fixed number of statements."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from base.podspec.resources import Amounts
from scheduler.allocation.queue_usage import UsageLevels, amounts_used, usage_levels
from scheduler.core.fairshare import cost, effective_priority
from scheduler.models import Executor
from scheduler.selectors import executors_listed
from sessions_app.authorization import Actor
from sessions_app.core.quotas import SESSIONS
from sessions_app.locks import database_now
from sessions_app.models import Queue
from sessions_app.selectors.counts import Count, Waiting, retries_waiting, waiting_by_queue
from sessions_app.selectors.policies import queues_visible
from sessions_app.selectors.sessions import projects_visible
from sessions_app.selectors.throughput import Throughput, throughput

LISTED = 200
"""Maximum number of queues that are listed one by one."""


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue in which something waits or runs; `share` is of the pool, as of now."""

    queue: Queue
    waiting: Count
    live: int
    share: float
    effective_priority: float


@dataclass(frozen=True, slots=True)
class Overview:
    """The overview. `queues` are those with the most work first, `more_queues` is the number of
    other queues with work. `executors` are those of `executors_listed`; None if the actor may not
    see them."""

    at: datetime
    waiting: Count
    live: int
    retries: Waiting
    throughput: Throughput
    queues: list[QueueLook]
    more_queues: int
    executors: list[Executor] | None


def overview(actor: Actor, address: str | None = None) -> Overview:
    """Return the overview of the projects that the actor may see, or of the one at this address."""
    # An actor who sees everything asks without a list of projects, which is cheaper.
    everything = actor.is_cluster_admin and address is None
    projects = None if everything else projects_visible(actor, address)
    queues = queues_visible(actor)
    if projects is not None:
        queues = queues.filter(project__in=projects)
    keys = list(queues.values_list("pk", flat=True))
    work = _Work(waiting_by_queue(keys), amounts_used(queues=keys))
    now = database_now()
    busy, usage = work.busy, usage_levels({}, now)
    listed = busy[:LISTED]
    rows = queues.in_bulk(listed)
    return Overview(
        at=now,
        waiting=Count(
            sum(each.value for each in work.waiting.values()),
            any(each.more for each in work.waiting.values()),
        ),
        live=sum(work.live(key) for key in work.used),
        retries=retries_waiting(projects=projects),
        throughput=throughput(projects),
        queues=[_queue_look(rows[key], work, usage) for key in listed if key in rows],
        more_queues=len(busy) - len(listed),
        executors=_executors(actor),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """The waiting sessions and the held amounts of queues, by queue id."""

    waiting: Mapping[int, Count]
    used: Mapping[int, Amounts]

    @property
    def busy(self) -> list[int]:
        """Return the ids of queues with work, those that hold most first."""
        return sorted(
            self.waiting.keys() | self.used.keys(),
            key=lambda key: (-self.live(key), -self.waits(key).value, key),
        )

    def waits(self, key: int) -> Count:
        return self.waiting.get(key, Count(0))

    def live(self, key: int) -> int:
        return int(self.used.get(key, {}).get(SESSIONS, Decimal(0)))


def _queue_look(queue: Queue, work: _Work, usage: UsageLevels) -> QueueLook:
    return QueueLook(
        queue=queue,
        waiting=work.waits(queue.pk),
        live=work.live(queue.pk),
        share=cost(work.used.get(queue.pk, {}), usage.pool),
        effective_priority=effective_priority(queue.priority_factor, usage.held(queue.pk)),
    )


def _executors(actor: Actor) -> list[Executor] | None:
    if not actor.is_cluster_admin:
        return None
    return list(executors_listed(actor).defer("nodes").order_by("name"))
