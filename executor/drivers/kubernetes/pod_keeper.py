"""Puts together what keeps the pods of runs: all of it serves on one event loop."""

import asyncio
from collections.abc import Callable

from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.extended_tolerations import ExtendedTolerations
from executor.drivers.kubernetes.nodes import NodeSurvey
from executor.drivers.kubernetes.planned_pods import PlannedPods
from executor.drivers.kubernetes.pod_creator import PodCreator
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.pod_settings import PodSettings
from executor.drivers.kubernetes.pod_watch import PodWatch
from executor.drivers.kubernetes.priority_classes import PriorityClasses
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.runs.cleaner import RunCleaner
from executor.drivers.kubernetes.runs.observer import PodObserver
from executor.drivers.kubernetes.runs.orders import RunOrders
from executor.drivers.kubernetes.runs.overdue import OverduePods
from executor.drivers.kubernetes.runs.strays import StrayPods
from executor.drivers.kubernetes.runs.tasks import Tasks
from executor.drivers.kubernetes.runs.teller import RunTeller
from executor.drivers.kubernetes.trouble import ClusterTrouble
from executor.drivers.protocol import Emit

AT_ONCE = 32
"""Changing calls to the API server that may run at one time."""


class PodKeeper:
    """Keeps the pods of all runs.

    It calls `emit` with each observation, and `wake` when `observer.surveyed` or `orders.retired`
    becomes true. It is made, and serves, on the loop of the thread `pods`. Its parts say which of
    their facts other threads may read.
    """

    def __init__(self, settings: PodSettings, emit: Emit, wake: Callable[[], None]):
        self._cluster = cluster = Cluster(settings.access, settings.answer_seconds)
        self._tasks = tasks = Tasks()
        runs, logs, calls = RunBook(), LogKeeper(cluster), asyncio.Semaphore(AT_ONCE)
        self.strays = strays = StrayPods(emit)
        self.nodes = NodeSurvey(cluster, settings.nodes_seconds, settings.executor)
        self.troubles = ClusterTrouble(cluster, runs.wake_unmade)
        self._classes = PriorityClasses(cluster, settings.priority_classes)
        self.tolerations = ExtendedTolerations(
            cluster, settings.extended_tolerations, runs, self.nodes
        )
        remover = PodRemover(cluster, calls, self._gone)
        self.cleaner = RunCleaner(runs, tasks, remover, strays)
        teller = RunTeller(tasks, remover, self.cleaner, logs, emit)
        self.observer = PodObserver(runs, tasks, teller, remover, strays, logs, wake)
        creator = PodCreator(
            *(settings, cluster, calls, self.troubles, self._classes),
            saw=self.observer.saw,
            emit=emit,
        )
        self._watch = PodWatch(settings, cluster, self.troubles, self.observer)
        self.orders = RunOrders(runs, tasks, creator, teller, strays, self._watch, wake)
        planned = PlannedPods(
            *(settings.placement_seconds, remover),
            survey=self.nodes.renew,
            abandon=teller.abandon,
            pass_on=teller.news,
        )
        self._overdue = OverduePods(
            settings.unconfirmed_after, runs, tasks, planned, remover, teller, strays
        )

    @property
    def warnings(self) -> list[str]:
        """Return what is not done as its administrator asked. Any thread may read it."""
        return [*self._classes.warnings, *self.tolerations.warnings]

    def _gone(self, run: PodRun, name: str) -> None:
        # The observer is made later than the remover, since it needs it.
        self.observer.gone(run, name)

    async def serve(self) -> None:
        """Serve until cancelled."""
        watch = self._watch
        try:
            await self._tasks.serve(
                *(watch.pods, watch.events, watch.relist, self.troubles.probe),
                *(self._overdue.keep, self.nodes.keep, self._classes.keep, self.tolerations.keep),
            )
        finally:
            await self._cluster.close()
