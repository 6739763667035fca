"""Clears runs away whose end the server has answered."""

import asyncio

from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.runs.strays import StrayPods
from executor.drivers.kubernetes.runs.tasks import Tasks

REMOVALS_WAIT = 20.0
"""Longest time in seconds for which removals wait until no pod has to be created."""


class RunCleaner:
    """All calls are on the loop that serves, in the thread `pods`."""

    def __init__(self, runs: RunBook, tasks: Tasks, remover: PodRemover, strays: StrayPods):
        self._runs = runs
        self._tasks = tasks
        self._remover = remover
        self._strays = strays

    def release(self, key: LeaseKey) -> None:
        """Remove what is kept of the run: the server has answered its end. Nothing waits for it."""
        run = self._runs.get(key)
        if run is not None and not run.released:
            run.released = True
            self._tasks.spawn(self.clear_away, run)

    async def clear_away(self, run: PodRun) -> None:
        """Delete the pods, to which our finalizer no longer holds, and forget the run."""
        if run.known:
            await self._runs.lull(REMOVALS_WAIT)
        for name in list(run.known):
            backoff = pauses()
            while name in run.known and not await self._remover.remove(
                run.path(name), run.known[name]
            ):
                await asyncio.sleep(backoff.next())
        self._strays.let_go(run.key)
        self._runs.forget(run)
