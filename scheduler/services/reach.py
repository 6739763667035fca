"""Who else takes work: what avoids an executor or its node waits for them if they could run it."""

from collections import defaultdict
from datetime import datetime, timedelta
from functools import cached_property

from django.conf import settings

from scheduler.fit import Room
from scheduler.models import Executor
from scheduler.services.handover import Wish
from sessions_app.locks import LockedSession


class Reach:
    """Two statements at most, however many sessions are asked about: who there is, at once, and
    their nodes with the first question."""

    def __init__(self, executor: Executor, now: datetime):
        stale = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
        alive = Executor.objects.filter(last_seen_at__gte=stale, cordoned=False, max_sessions__gt=0)
        others = alive.exclude(pk=executor.pk).order_by("name")
        self.serving: list[tuple[str, int | None]] = list(others.values_list("name", "projects"))
        """Each of the others with each project that it serves; None stands for all."""
        self._by_project: dict[int | None, list[str]] = defaultdict(list)
        for name, project in self.serving:
            self._by_project[project].append(name)

    def could_ever_run(self, session: LockedSession, wish: Wish) -> bool:
        """Whether one of the others could if it were empty, and need not be avoided."""
        names = {*self._by_project[None], *self._by_project[session.project_id]}
        return any(
            name in self._empty
            and self._empty[name].misfit(wish.amounts, wish.node_avoided_on(name)) is None
            for name in names.difference(session.avoid_executors)
        )

    @cached_property
    def _empty(self) -> dict[str, Room]:
        others = Executor.objects.filter(name__in={name for name, _ in self.serving})
        return {name: Room(nodes, ()) for name, nodes in others.values_list("name", "nodes")}
