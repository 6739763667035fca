"""What all executors of one sweep of preemption share: usage, shares, and plans underway."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Max

from scheduler.allocation.preemption_world import Moved, Underway, below_since, plans_underway
from scheduler.allocation.queue_usage import UsageLevels, usage_levels
from scheduler.allocation.waiting_lines import busy_queues
from scheduler.core.preemption import Shares, queues_below, shares
from scheduler.models import Executor, Preemption
from scheduler.services.silence import silent_before
from sessions_app.core.priorities import DEFAULT_CLASS
from sessions_app.locks import database_now
from sessions_app.models import PriorityClass, Queue


class View(NamedTuple):
    """The facts that all executors of a sweep share."""

    now: datetime
    usage: UsageLevels
    underway: Underway
    underway_dry: Underway
    reclaiming: frozenset[int]
    """Queues that have been below their share for long enough."""
    may_preempt: frozenset[int]
    """The values of the classes that may preempt."""
    names: Mapping[int, str]
    held: Shares
    """The parts that queues hold once all plans are carried out."""
    held_dry: Shares
    """The same, as if those of dry runs were carried out, too."""
    newest: int
    """The id of the newest preemption that it contains; 0 without one."""

    def takers(self, *, dry: bool) -> Mapping[UUID, Moved]:
        """Return for whom room is being made already, here or elsewhere.

        To a dry run those of dry runs count, too. A real plan does not wait for what only might be.
        """
        real = self.underway.takers
        return {**self.underway_dry.takers, **real} if dry else real


def _projects_served(now: datetime) -> list[int] | None:
    """Return the projects that living executors serve; None for all. What waits in others has no
    share: nobody could run it."""
    alive = Executor.objects.filter(last_seen_at__gte=silent_before(now))
    served = set(alive.values_list("projects", flat=True))
    return None if None in served else [each for each in served if each is not None]


def newest_preemption() -> int:
    """Return the id of the newest preemption; 0 without one."""
    newest: int | None = Preemption.objects.aggregate(newest=Max("pk"))["newest"]
    return newest or 0


def view_now() -> View:
    """Return what executors share: it holds until the next preemption is planned."""
    newest, now = newest_preemption(), database_now()
    usage = usage_levels({}, now)
    waiting = [queue.id for queue in busy_queues(_projects_served(now))]
    active = {*waiting, *usage.holds}
    factors = dict(Queue.objects.filter(pk__in=active).values_list("pk", "priority_factor"))
    found = shares(factors, usage.holds) if factors else Shares({}, {})
    below = queues_below(found, waiting, settings.REPRISE["reclaim_below"])
    before = now - timedelta(seconds=settings.REPRISE["reclaim_after"])
    since = below_since(below, now)
    classes = list(PriorityClass.objects.all())
    real, dry = plans_underway(now, usage.pool)
    after = found.moved(real.changes())
    return View(
        now,
        usage,
        real,
        dry,
        frozenset(queue for queue, begun in since.items() if begun <= before),
        frozenset(each.value for each in classes if each.may_preempt),
        {0: DEFAULT_CLASS, **{each.value: each.name for each in classes}},
        after,
        after.moved(dry.changes()),
        newest,
    )
