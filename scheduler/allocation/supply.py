"""What the executor of a round has, and what it and all others hold of the pool."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from django.conf import settings

from base.podspec.resources import Amounts
from scheduler.allocation.holdings import Held, leases_held
from scheduler.allocation.queue_usage import UsageLevels, usage_levels
from scheduler.allocation.waiting_lines import ONE
from scheduler.core.fairshare import WaitingLine, cost
from scheduler.core.fit import Room
from scheduler.models import Executor
from sessions_app.core.quotas import SESSIONS

MAX_GRANTS = 500
"""Maximum number of sessions that one round leases."""


class Share(NamedTuple):
    """The shares of the pool that a queue holds on this executor."""

    all: float
    by_retries: float


class Supply:
    """The supply of one round, at the time `now`. Each part is read when it is first needed."""

    def __init__(self, executor: Executor, now: datetime):
        self.executor = executor
        self.now = now
        self.alive = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
        """Executors that were not heard since then count as gone."""

    @cached_property
    def whole(self) -> Amounts:
        """Return all that the executor has."""
        own = Room(self.executor.nodes, ()).whole
        return {**own, SESSIONS: ONE * self.executor.max_sessions}

    def part(self, line: WaitingLine) -> float:
        """Return the part of the executor that one session of a line takes."""
        return cost(line.amounts, self.whole)

    @cached_property
    def leases(self) -> Sequence[Held]:
        """Return the leases of the executor, grouped."""
        return leases_held(self.executor.pk)[self.executor.pk]

    @cached_property
    def slots(self) -> int:
        """Return how many sessions the round may lease."""
        free = self.executor.max_sessions - sum(each.leases for each in self.leases)
        return max(min(free, MAX_GRANTS), 0)

    @cached_property
    def usage(self) -> UsageLevels:
        """Return what all queues hold of the pool."""
        return usage_levels(self.whole, self.now, besides=(self.executor.pk, self.leases))

    @cached_property
    def shares(self) -> Mapping[int, Share]:
        """Return what each queue holds on this executor, by queue id."""
        shares: dict[int, Share] = defaultdict(lambda: Share(0.0, 0.0))
        for each in self.leases:
            size = cost(each.taken, self.usage.pool)
            before = shares[each.queue_id]
            by_retries = before.by_retries + (size if each.retry else 0.0)
            shares[each.queue_id] = Share(before.all + size, by_retries)
        return shares
