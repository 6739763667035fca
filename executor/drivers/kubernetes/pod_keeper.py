"""Creates the pods of sessions, observes and removes them, all on one event loop."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from reprise_client.wire import LeaseKey

from executor.clock import boottime
from executor.drivers.kubernetes.api import Cluster, Listed
from executor.drivers.kubernetes.api_refusals import Object
from executor.drivers.kubernetes.error_logging import log_errors, run_until_done
from executor.drivers.kubernetes.extended_tolerations import ExtendedTolerations
from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.nodes import NodeSurvey
from executor.drivers.kubernetes.planned_pods import PLAN, PlannedPods, conclusion
from executor.drivers.kubernetes.pod_creator import PodCreator, without_secrets
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_manifest import Manifest
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import Known, PodRun, key_of_pod, may_go_on
from executor.drivers.kubernetes.pod_settings import PodSettings
from executor.drivers.kubernetes.pod_watch import PodWatch
from executor.drivers.kubernetes.priority_classes import PriorityClasses
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.trouble import ClusterTrouble
from executor.drivers.protocol import FOUND, UNSTARTED, Observation, Order
from executor.failpoints import failpoint
from executor.reports import FINAL
from executor.runs import RunFiles

log = logging.getLogger(__name__)

AT_ONCE = 32
"""Changing calls to the API server that may run at one time."""
FORCED_SECONDS = 60.0
REMEMBERED_SECONDS = 600.0
RETIRE_SECONDS = 0.05
REMOVALS_WAIT, LOGS_WAIT = 20.0, 3.0
"""Longest times in seconds for which removals, and logs, wait until no pod has to be created."""


class PodKeeper:
    """Keeps the pods of all runs.

    It calls `emit` with each observation, and `wake` when `surveyed` becomes true. All methods but
    `serve` are called on the loop that serves, and none of them blocks.
    """

    def __init__(
        self,
        settings: PodSettings,
        emit: Callable[[Observation], None],
        wake: Callable[[], None],
    ):
        self._settings = settings
        self._emit = emit
        self._wake = wake
        self._cluster = Cluster(settings.access, settings.answer_seconds)
        self._runs = RunBook()
        self._found: dict[LeaseKey, Place] = {}
        self._let_go: dict[LeaseKey, float] = {}
        self._calls = asyncio.Semaphore(AT_ONCE)
        self._remover = PodRemover(self._cluster, self._calls, self._gone)
        self.nodes = NodeSurvey(self._cluster, settings.nodes_seconds, settings.executor)
        self._planned = PlannedPods(
            *(settings.placement_seconds, self._remover),
            survey=self.nodes.renew,
            abandon=self._abandon,
            pass_on=self._news,
        )
        self._troubles = ClusterTrouble(self._cluster, self._runs.wake_unmade)
        self._classes = PriorityClasses(self._cluster, settings.priority_classes)
        self.tolerations = ExtendedTolerations(
            self._cluster, settings.extended_tolerations, self._runs, self.nodes
        )
        self._creator = PodCreator(
            *(settings, self._cluster, self._calls, self._troubles, self._classes),
            saw=self._saw,
            emit=emit,
        )
        self._logs = LogKeeper(self._cluster)
        self._watch = PodWatch(settings, self._cluster, self._troubles, self)
        self._tasks: asyncio.TaskGroup | None = None
        self.surveyed = self.retired = False

    @property
    def trouble(self) -> str:
        """Return why no run can be started at present; "" if runs can."""
        return self._troubles.text

    @property
    def project_troubles(self) -> dict[str, str]:
        """Return why no run of a project can be started at present, by project."""
        return self._troubles.of_projects

    @property
    def warnings(self) -> list[str]:
        """Return what is not done as its administrator asked."""
        return [*self._classes.warnings, *self.tolerations.warnings]

    async def serve(self) -> None:
        """Serve until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._spawn(self._watch.pods)
                self._spawn(self._watch.events)
                self._spawn(self._watch.relist)
                self._spawn(self._troubles.probe)
                self._spawn(self._look_after)
                self._spawn(self.nodes.keep)
                self._spawn(self._classes.keep)
                self._spawn(self.tolerations.keep)
        finally:
            await self._cluster.close()

    # What the agent asks

    def start(self, order: Order, place: Place, bodies: Sequence[Manifest]) -> None:
        run = self._runs.add(order.key, order.files, place)
        self._runs.begin_making(run)
        self._spawn(self._make, run, order, bodies)

    def reclaim(self, files: RunFiles, place: Place) -> None:
        """Adopt a run that an earlier agent started."""
        self._found.pop(files.key, None)
        run = self._runs.add(files.key, files, place)
        run.created, run.reclaimed = place.made, True
        if not place.made:
            self._spawn(self._find, run)
        if self.surveyed:
            # What is there was seen before it was known whose it is.
            self._watch.look_soon()

    def retire(self) -> None:
        """Give back the runs of which surely nothing exists; then `retired` is true."""
        self._creator.retiring = True
        self._runs.wake_unmade()
        self._spawn(self._watch_retire)

    async def _watch_retire(self) -> None:
        while any(not (run.created or run.reclaimed) for run in self._runs):
            await asyncio.sleep(RETIRE_SECONDS)
        self.retired = True
        self._wake()

    def stop(self, key: LeaseKey, grace: int) -> None:
        run = self._runs.get(key)
        if run is None or run.end is not None or (run.grace is not None and run.grace <= grace):
            return
        run.grace = grace
        for name in run.names:
            run.asked_at.setdefault(name, boottime())
        run.deleting.clear()
        run.touch()
        if run.created:
            self._news(run, run.tracker.stop())

    def forget_troubles(self, projects: Iterable[str]) -> None:
        """Forget the troubles of these projects: none of their sessions waits for this executor."""
        self._troubles.forget(projects)

    def release(self, key: LeaseKey) -> None:
        """Remove what is kept of the run: the server has answered its end."""
        run = self._runs.get(key)
        if run is not None and not run.released:
            run.released = True
            self._spawn(self._clear_away, run)

    # Creation

    async def _make(self, run: PodRun, order: Order, bodies: Sequence[Manifest]) -> None:
        try:
            await self._create(run, order, bodies)
        finally:
            self._runs.end_making(run)

    async def _create(self, run: PodRun, order: Order, bodies: Sequence[Manifest]) -> None:
        await self._go_on(run, await self._creator.create(run, order, bodies))

    async def _find(self, run: PodRun) -> None:
        failed = await self._creator.find(run)
        if run.verdict is None:
            await self._go_on(run, failed)

    async def _go_on(self, run: PodRun, failed: Observation | None) -> None:
        """Abandon the run if that `failed`; else tell what was held back until all pods exist."""
        if failed is not None:
            await self._abandon(run, failed)
            return
        run.created = True
        held_back, run.held_back = run.held_back, []
        for each in held_back:
            self._pass_on(run, each)
        self._news(run, run.tracker.stop() if run.stopping else [])

    async def _abandon(self, run: PodRun, verdict: Observation) -> None:
        """End a run of which not all pods could be created, once none of its other pods is left."""
        run.grace, run.verdict = run.grace or 0, verdict
        for name in list(run.known):
            run.tracker.ask_to_delete(name)
            self._spawn(self._remover.delete, run, name)
        while run.end is None and not all(run.tracker.is_over(name) for name in run.known):
            await asyncio.wait([run.next_change])
        self._finish(run, verdict)

    # Removal

    async def _clear_away(self, run: PodRun) -> None:
        """Delete the pods, to which our finalizer no longer holds, and forget the run.

        Nothing waits for this.
        """
        if run.known:
            await self._runs.lull(REMOVALS_WAIT)
        for name in list(run.known):
            backoff = pauses()
            while name in run.known and not await self._remover.remove(
                run.path(name), run.known[name]
            ):
                await asyncio.sleep(backoff.next())
        self._let_go[run.key] = boottime()
        self._runs.forget(run)

    def _gone(self, run: PodRun, name: str) -> None:
        known = run.known.pop(name, None)
        run.touch()
        if known is not None:
            self._news(run, run.tracker.see_deleted(known.pod))

    # Observation

    @property
    def misses_pods(self) -> bool:
        """Return whether pods that were made are missing."""
        return any(run.misses_pods for run in self._runs)

    def listed(self, listed: Listed) -> None:
        """Compare what is there with what should be."""
        theirs: dict[LeaseKey, list[Object]] = defaultdict(list)
        for pod in listed.items:
            if key := key_of_pod(pod):
                theirs[key].append(pod)
        for run in self._runs:
            with log_errors(run.key):
                self._compare(run, theirs.pop(run.key, []))
        for key, pods in theirs.items():
            with log_errors(key):
                self._stray(key, pods[0])
                if self._let_go.get(key, listed.began) < listed.began:
                    for pod in pods:
                        self._spawn(self._remover.remove_late, pod)
        if not self.surveyed:
            self.surveyed = True
            self._wake()

    def _compare(self, run: PodRun, pods: Sequence[Object]) -> None:
        # Trim each pod once, for all who read it.
        seen = [Known.of(pod) for pod in pods]
        for known in seen:
            self._note(run, known)
        if run.created or run.verdict is not None:
            self._news(run, run.tracker.relist([known.pod for known in seen]))
        if run.released:
            # When a namespace is deleted, our rights to delete its pods go, too.
            there = {known.pod["metadata"]["name"] for known in seen}
            for name in run.known.keys() - there:
                del run.known[name]

    def heard(self, event: Object) -> None:
        """Note what a core Event says of a pod."""
        about = event.get("involvedObject") or {}
        run = self._runs.of_pod(about.get("namespace", ""), about.get("name", ""))
        if run is not None and run.created:
            self._news(run, run.tracker.hear(event))

    def seen(self, kind: str, pod: Object) -> None:
        """Note what the watch says of a pod."""
        key = key_of_pod(pod)
        run = self._runs.get(key)
        if run is None:
            if key and kind != "DELETED":
                self._stray(key, pod)
            return
        if kind == "DELETED":
            name = pod["metadata"]["name"]
            if (known := run.known.get(name)) and known.uid == pod["metadata"].get("uid"):
                del run.known[name]
            run.touch()
            self._news(run, run.tracker.see_deleted(pod))
            return
        self._saw(run, pod)

    def _saw(self, run: PodRun, pod: Object) -> None:
        known = Known.of(pod)
        self._note(run, known)
        self._news(run, run.tracker.see(known.pod))

    def _note(self, run: PodRun, known: Known) -> None:
        name = known.pod["metadata"]["name"]
        before = run.known.get(name)
        if name not in run.names or (before and before.uid != known.uid and not before.over):
            return
        if before and before.over and not known.over:
            return
        run.known[name] = known
        run.touch()
        if known.started and run.log is None:
            run.log = self._spawn(self._keep_log, run)
        if known.hurried_since(before):
            run.asked_at[name] = boottime()
        if run.reclaimed and known.awaits_secret and not known.ran and run.verdict is None:
            run.created, run.verdict = False, without_secrets(run)
            self._spawn(self._abandon, run, run.verdict)
        if known.only_held and not known.over and not known.bound:
            self._once(run, f"held {name}", self._remover.unhold_deleted, run, name)

    async def _keep_log(self, run: PodRun) -> None:
        """Copy the log of a run of which a container has started."""
        await self._runs.lull(LOGS_WAIT)
        if run.created:
            run.place.note_made(run.files)
        await self._logs.keep(run)

    def _stray(self, key: LeaseKey, pod: Object) -> None:
        """Report a pod of a run that this agent does not know.

        An earlier agent started it, or its files are lost. The server decides whether it may go on.
        """
        if key in self._found or key in self._let_go or not may_go_on(pod):
            return
        if place := Place.of_pod(pod):
            log.info("found existing pods of session %s", key)
            self._found[key] = place
            self._emit(Observation(key, FOUND))

    def place_of(self, key: LeaseKey) -> Place | None:
        """Return the place of a run that was found on the cluster, or None."""
        return self._found.get(key)

    # What becomes of it

    def _news(self, run: PodRun, observations: Iterable[Observation]) -> None:
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
            for name in run.tracker.to_delete:
                if name in run.known and name not in run.deleting:
                    run.tracker.ask_to_delete(name)
                    self._once(run, name, self._remover.delete, run, name)

    def _pass_on(self, run: PodRun, seen: Observation) -> None:
        self._emit(replace(seen, pod=run.tracker.slowest))

    def _finish(self, run: PodRun, end: Observation) -> None:
        if run.end is not None:
            return
        run.end = conclusion(run, end)
        run.touch()
        self._spawn(self._emit_end, run, run.end)

    async def _emit_end(self, run: PodRun, end: Observation) -> None:
        if run.log is not None:
            await self._logs.complete(run, run.log)
        if aside := run.failed_aside:
            reading = self._spawn(self._logs.keep_failed, run, *aside)
            await self._logs.complete(run, reading)
            end = replace(end, failed_output=run.failed_output)
        if end.status == UNSTARTED:
            # The pods must go before the lease can come back: the new pods will have the same
            # names.
            run.released = True
            await self._clear_away(run)
        failpoint("executor.before_pod_end")
        self._emit(end)

    async def _look_after(self) -> None:
        """Handle what only time brings: overdue deletions, and entries that may be forgotten."""
        after = self._settings.unconfirmed_after
        while True:
            await asyncio.sleep(1.0)
            now = boottime()
            for run in self._runs:
                if refused := self._planned.refused(run, now):
                    self._once(run, PLAN, self._planned.hand_back, run, refused)
                for name in list(run.asked_at) if run.end is None else ():
                    late = run.overdue(name, now)
                    if late > FORCED_SECONDS:
                        self._unhold_forced(run, name)
                    if after and late > after:
                        log.warning(
                            "pod %s of session %s was deleted, but does not end: it "
                            "counts as ended",
                            name,
                            run.key,
                        )
                        self._news(run, run.tracker.give_up(name))
                        run.touch()
            for key, moment in list(self._let_go.items()):
                if now > moment + REMEMBERED_SECONDS:
                    del self._let_go[key]

    def _unhold_forced(self, run: PodRun, name: str) -> None:
        known = run.known.get(name)
        if known is not None and known.only_held and not known.over:
            self._once(run, f"held {name}", self._remover.unhold_deleted, run, name)

    # Bookkeeping

    def _once(
        self, run: PodRun, what: str, work: Callable[..., Coroutine[Any, Any, None]], *about: Any
    ) -> None:
        if what not in run.deleting:
            run.deleting.add(what)
            self._spawn(work, *about)

    def _spawn(
        self, work: Callable[..., Coroutine[Any, Any, None]], *about: Any
    ) -> asyncio.Task[None]:
        assert self._tasks is not None  # noqa: S101  # no request comes before it serves
        return self._tasks.create_task(run_until_done(work, *about))
