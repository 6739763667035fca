"""Handles what only time brings: plans refused for too long, and pods that outlast their end."""

import asyncio
import logging

from executor.clock import boottime
from executor.drivers.kubernetes.planned_pods import PLAN, PlannedPods
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.runs.strays import StrayPods
from executor.drivers.kubernetes.runs.tasks import Tasks
from executor.drivers.kubernetes.runs.teller import RunTeller

log = logging.getLogger(__name__)

FORCED_SECONDS = 60.0
TURN_SECONDS = 1.0


class OverduePods:
    """A pod counts as ended when its deletion is overdue by `unconfirmed_after` seconds; 0: never.

    It runs on the loop that serves, in the thread `pods`.
    """

    def __init__(
        self,
        unconfirmed_after: float,
        runs: RunBook,
        tasks: Tasks,
        planned: PlannedPods,
        remover: PodRemover,
        teller: RunTeller,
        strays: StrayPods,
    ):
        self._unconfirmed_after = unconfirmed_after
        self._runs = runs
        self._tasks = tasks
        self._planned = planned
        self._remover = remover
        self._teller = teller
        self._strays = strays

    async def keep(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            await asyncio.sleep(TURN_SECONDS)
            now = boottime()
            for run in self._runs:
                if refused := self._planned.refused(run, now):
                    self._tasks.once(run, PLAN, self._planned.hand_back, run, refused)
                for name in list(run.asked_at) if run.end is None else ():
                    self._check(run, name, run.overdue(name, now))
            self._strays.forget_old(now)

    def _check(self, run: PodRun, name: str, late: float) -> None:
        if late > FORCED_SECONDS:
            self._unhold_forced(run, name)
        if self._unconfirmed_after and late > self._unconfirmed_after:
            log.warning(
                "pod %s of session %s was deleted, but does not end: it counts as ended",
                name,
                run.key,
            )
            self._teller.news(run, run.tracker.give_up(name))
            run.touch()

    def _unhold_forced(self, run: PodRun, name: str) -> None:
        known = run.known.get(name)
        if known is not None and known.only_held and not known.over:
            self._tasks.once(run, f"held {name}", self._remover.unhold_deleted, run, name)
