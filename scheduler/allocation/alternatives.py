"""Other executors that could take work which avoids this executor or one of its nodes."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

from django.conf import settings

from scheduler.allocation.waiting_lines import Wish
from scheduler.core.fit import Room
from scheduler.models import Executor


class Alternatives:
    """The other executors, and what they could run. Takes two statements at most."""

    def __init__(self, executor: Executor, now: datetime):
        self._executor = executor
        self._stale = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
        self._troubled: dict[int, set[str]] = defaultdict(set)
        """Names of executors that cannot start sessions of a project now, by project id."""

    def could_ever_run(self, project_id: int, wish: Wish) -> bool:
        """Return whether another executor that the wish does not avoid could run it when empty."""
        serving = {*self._by_project[None], *self._by_project[project_id]}
        names = serving.difference(self._troubled[project_id])
        return any(
            name in self._empty
            and self._empty[name].misfit(wish.ask, wish.node_avoided_on(name)) is None
            for name in names.difference(wish.avoid_executors)
        )

    @cached_property
    def _by_project(self) -> Mapping[int | None, list[str]]:
        """Return the names of the other executors by the project id they serve (None: all)."""
        found: dict[int | None, list[str]] = defaultdict(list)
        alive = Executor.objects.filter(
            last_seen_at__gte=self._stale, cordoned=False, max_sessions__gt=0
        )
        others = alive.exclude(pk=self._executor.pk).order_by("name")
        for name, troubles, project in others.values_list("name", "project_troubles", "projects"):
            found[project].append(name)
            for troubled in troubles:
                self._troubled[int(troubled)].add(name)
        return found

    @cached_property
    def _empty(self) -> dict[str, Room]:
        names = {name for each in self._by_project.values() for name in each}
        others = Executor.objects.filter(name__in=names)
        return {name: Room(nodes, ()) for name, nodes in others.values_list("name", "nodes")}
