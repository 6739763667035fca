"""Tells the agent what becomes of its runs, and deletes the pods that must stop."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from executor.drivers.kubernetes.planned_pods import conclusion
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.runs.cleaner import RunCleaner
from executor.drivers.kubernetes.runs.tasks import Tasks
from executor.drivers.protocol import UNSTARTED, Emit, Observation
from executor.failpoints import failpoint
from executor.reports import FINAL


class RunTeller:
    """Calls `emit` with each observation, on the loop that serves, in the thread `pods`.

    All its own calls are on that loop, too.
    """

    def __init__(
        self,
        tasks: Tasks,
        remover: PodRemover,
        cleaner: RunCleaner,
        logs: LogKeeper,
        emit: Emit,
    ):
        self._tasks = tasks
        self._remover = remover
        self._cleaner = cleaner
        self._logs = logs
        self._emit = emit

    def news(self, run: PodRun, observations: Iterable[Observation]) -> None:
        """Tell what the pods of a run have shown, or hold it back until all of them exist."""
        if run.end is not None:
            return
        for each in observations:
            if each.status in FINAL:
                self._finish(run, each)
            elif run.created:
                self._pass_on(run, each)
            else:
                run.held_back.append(each)
        if run.created and run.end is None:
            self._delete_doomed(run)

    def go_on(self, run: PodRun) -> None:
        """Tell what was held back: all pods of the run exist."""
        run.created = True
        held_back, run.held_back = run.held_back, []
        for each in held_back:
            self._pass_on(run, each)
        self.news(run, run.tracker.stop() if run.stopping else [])

    async def abandon(self, run: PodRun, verdict: Observation) -> None:
        """End a run of which not all pods could be created, once none of its other pods is left."""
        run.grace, run.verdict = run.grace or 0, verdict
        for name in list(run.known):
            run.tracker.ask_to_delete(name)
            self._tasks.spawn(self._remover.delete, run, name)
        while run.end is None and not all(run.tracker.is_over(name) for name in run.known):
            await asyncio.wait([run.next_change])
        self._finish(run, verdict)

    def _delete_doomed(self, run: PodRun) -> None:
        for name in run.tracker.to_delete:
            if name in run.known and name not in run.deleting:
                run.tracker.ask_to_delete(name)
                self._tasks.once(run, name, self._remover.delete, run, name)

    def _pass_on(self, run: PodRun, seen: Observation) -> None:
        self._emit(replace(seen, pod=run.tracker.slowest))

    def _finish(self, run: PodRun, end: Observation) -> None:
        if run.end is not None:
            return
        run.end = conclusion(run, end)
        run.touch()
        self._tasks.spawn(self._emit_end, run, run.end)

    async def _emit_end(self, run: PodRun, end: Observation) -> None:
        if run.log is not None:
            await self._logs.complete(run, run.log)
        if aside := run.failed_aside:
            reading = self._tasks.spawn(self._logs.keep_failed, run, *aside)
            await self._logs.complete(run, reading)
            end = replace(end, failed_output=run.failed_output)
        if end.status == UNSTARTED:
            # The pods must go before the lease can come back: the new pods will have the same
            # names.
            run.released = True
            await self._cleaner.clear_away(run)
        failpoint("executor.before_pod_end")
        self._emit(end)
