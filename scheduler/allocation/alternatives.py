"""Other executors that could take work which avoids this executor or one of its nodes."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

from django.conf import settings

from scheduler.allocation.holdings import below_at
from scheduler.allocation.waiting_lines import BusyQueue, Wish
from scheduler.core.below import Below
from scheduler.core.fit import Room
from scheduler.models import Executor, with_nodes_out

PODS = ("pod_placing", "extended_tolerations")


class Alternatives:
    """The other executors, and what they could run. Takes two statements at most."""

    def __init__(self, executor: Executor, now: datetime):
        self._executor = executor
        self._stale = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
        self._troubled: dict[int, set[str]] = defaultdict(set)
        """Names of executors that cannot start sessions of a project now, by project id."""
        self._labels: dict[str, dict[str, str]] = {}
        self._below: dict[str, Below] = {}

    def could_ever_run(self, queue: BusyQueue, wish: Wish) -> bool:
        """Return whether another executor that the wish does not avoid could run it when empty."""
        serving = {*self._by_project[None], *self._by_project[queue.project_id]}
        names = serving.difference(self._troubled[queue.project_id])
        return any(
            name in self._empty and wish.takes(self._labels[name]) and self._fits(name, queue, wish)
            for name in names.difference(wish.avoid_executors)
        )

    def _fits(self, name: str, queue: BusyQueue, wish: Wish) -> bool:
        ask, node = wish.ask_on(self._below[name].under(queue.placing)), wish.node_avoided_on(name)
        return self._empty[name].misfit(ask, node) is None

    @cached_property
    def _by_project(self) -> Mapping[int | None, list[str]]:
        """Return the names of the other executors by the project id they serve (None: all)."""
        found: dict[int | None, list[str]] = defaultdict(list)
        alive = Executor.objects.filter(
            last_seen_at__gte=self._stale, cordoned=False, max_sessions__gt=0
        )
        others = alive.exclude(pk=self._executor.pk).order_by("name")
        columns = ("name", "project_troubles", "projects", "labels")
        for name, troubles, project, labels in others.values_list(*columns):
            self._labels[name] = labels
            found[project].append(name)
            for troubled in troubles:
                self._troubled[int(troubled)].add(name)
        return found

    @cached_property
    def _empty(self) -> dict[str, Room]:
        names = {name for each in self._by_project.values() for name in each}
        columns = ("name", "nodes", "node_templates", "avoid_suspects", "auto_quarantine", *PODS)
        found = {}
        for other in with_nodes_out(Executor.objects.filter(name__in=names).only(*columns)):
            found[other.name] = Room(other.nodes, (), other.node_templates)
            self._below[other.name] = below_at(other)
            found[other.name].close(other.closed_nodes)
        return found
