"""Notes what the cluster shows of pods, and passes on what is news of a run."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from reprise_client.wire import LeaseKey

from executor.clock import boottime
from executor.drivers.kubernetes.api import Listed
from executor.drivers.kubernetes.api_refusals import Object
from executor.drivers.kubernetes.error_logging import log_errors
from executor.drivers.kubernetes.pod_creator import without_secrets
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import Known, PodRun, key_of_pod
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.runs.strays import StrayPods
from executor.drivers.kubernetes.runs.tasks import Tasks
from executor.drivers.kubernetes.runs.teller import RunTeller

LOGS_WAIT = 3.0
"""Longest time in seconds for which logs wait until no pod has to be created."""


class PodObserver:
    """The listener of the watch. It calls `wake` when `surveyed` becomes true.

    All calls are on the loop that serves, in the thread `pods`; any thread may read `surveyed`.
    """

    def __init__(
        self,
        runs: RunBook,
        tasks: Tasks,
        teller: RunTeller,
        remover: PodRemover,
        strays: StrayPods,
        logs: LogKeeper,
        wake: Callable[[], None],
    ):
        self._runs = runs
        self._tasks = tasks
        self._teller = teller
        self._remover = remover
        self._strays = strays
        self._logs = logs
        self._wake = wake
        self.surveyed = False

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
                self._strays.see(key, pods[0])
                if self._strays.came_late(key, listed.began):
                    for pod in pods:
                        self._tasks.spawn(self._remover.remove_late, pod)
        if not self.surveyed:
            self.surveyed = True
            self._wake()

    def _compare(self, run: PodRun, pods: Sequence[Object]) -> None:
        # Trim each pod once, for all who read it.
        seen = [Known.of(pod) for pod in pods]
        for known in seen:
            self._note(run, known)
        if run.created or run.verdict is not None:
            self._teller.news(run, run.tracker.relist([known.pod for known in seen]))
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
            self._teller.news(run, run.tracker.hear(event))

    def seen(self, kind: str, pod: Object) -> None:
        """Note what the watch says of a pod."""
        key = key_of_pod(pod)
        run = self._runs.get(key)
        if run is None:
            if key and kind != "DELETED":
                self._strays.see(key, pod)
            return
        if kind == "DELETED":
            name = pod["metadata"]["name"]
            if (known := run.known.get(name)) and known.uid == pod["metadata"].get("uid"):
                del run.known[name]
            run.touch()
            self._teller.news(run, run.tracker.see_deleted(pod))
            return
        self.saw(run, pod)

    def saw(self, run: PodRun, pod: Object) -> None:
        """Note a pod of a run as it is now."""
        known = Known.of(pod)
        self._note(run, known)
        self._teller.news(run, run.tracker.see(known.pod))

    def gone(self, run: PodRun, name: str) -> None:
        """Note that a pod does not exist any more."""
        known = run.known.pop(name, None)
        run.touch()
        if known is not None:
            self._teller.news(run, run.tracker.see_deleted(known.pod))

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
            run.log = self._tasks.spawn(self._keep_log, run)
        if known.hurried_since(before):
            run.asked_at[name] = boottime()
        if run.reclaimed and known.awaits_secret and not known.ran and run.verdict is None:
            run.created, run.verdict = False, without_secrets(run)
            self._tasks.spawn(self._teller.abandon, run, run.verdict)
        if known.only_held and not known.over and not known.bound:
            self._tasks.once(run, f"held {name}", self._remover.unhold_deleted, run, name)

    async def _keep_log(self, run: PodRun) -> None:
        """Copy the log of a run of which a container has started."""
        await self._runs.lull(LOGS_WAIT)
        if run.created:
            run.place.note_made(run.files)
        await self._logs.keep(run)
