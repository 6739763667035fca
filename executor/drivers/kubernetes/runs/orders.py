"""What the agent asks for: to start runs, to go on with them, and to stop them."""

import asyncio
from collections.abc import Callable, Sequence

from reprise_client.wire import LeaseKey

from executor.clock import boottime
from executor.drivers.kubernetes.pod_creator import PodCreator
from executor.drivers.kubernetes.pod_manifest import Manifest
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.pod_watch import PodWatch
from executor.drivers.kubernetes.run_book import RunBook
from executor.drivers.kubernetes.runs.strays import StrayPods
from executor.drivers.kubernetes.runs.tasks import Tasks
from executor.drivers.kubernetes.runs.teller import RunTeller
from executor.drivers.protocol import Observation, Order
from executor.runs import RunFiles

RETIRE_SECONDS = 0.05


class RunOrders:
    """All calls are on the loop that serves, in the thread `pods`, and none of them blocks.

    The driver passes them on from the agent's main thread. It calls `wake` when `retired` becomes
    true; any thread may read that.
    """

    def __init__(
        self,
        runs: RunBook,
        tasks: Tasks,
        creator: PodCreator,
        teller: RunTeller,
        strays: StrayPods,
        watch: PodWatch,
        wake: Callable[[], None],
    ):
        self._runs = runs
        self._tasks = tasks
        self._creator = creator
        self._teller = teller
        self._strays = strays
        self._watch = watch
        self._wake = wake
        self.retired = False

    def start(self, order: Order, place: Place, bodies: Sequence[Manifest]) -> None:
        """Create the pods of a run."""
        run = self._runs.add(order.key, order.files, place)
        self._runs.begin_making(run)
        self._tasks.spawn(self._make, run, order, bodies)

    def reclaim(self, files: RunFiles, place: Place) -> None:
        """Adopt a run that an earlier agent started."""
        self._strays.adopt(files.key)
        run = self._runs.add(files.key, files, place)
        run.created, run.reclaimed = place.made, True
        if not place.made:
            self._tasks.spawn(self._find, run)
        # What is there was seen before it was known whose it is.
        self._watch.look_again()

    def stop(self, key: LeaseKey, grace: int) -> None:
        """Delete the pods of a run, which get `grace` seconds to stop, or fewer if asked before."""
        run = self._runs.get(key)
        if run is None or run.end is not None or (run.grace is not None and run.grace <= grace):
            return
        run.grace = grace
        for name in run.names:
            run.asked_at.setdefault(name, boottime())
        run.deleting.clear()
        run.touch()
        if run.created:
            self._teller.news(run, run.tracker.stop())

    def retire(self) -> None:
        """Give back the runs of which surely nothing exists; then `retired` is true."""
        self._creator.retiring = True
        self._runs.wake_unmade()
        self._tasks.spawn(self._watch_retire)

    async def _watch_retire(self) -> None:
        while any(not (run.created or run.reclaimed) for run in self._runs):
            await asyncio.sleep(RETIRE_SECONDS)
        self.retired = True
        self._wake()

    async def _make(self, run: PodRun, order: Order, bodies: Sequence[Manifest]) -> None:
        try:
            await self._go_on(run, await self._creator.create(run, order, bodies))
        finally:
            self._runs.end_making(run)

    async def _find(self, run: PodRun) -> None:
        failed = await self._creator.find(run)
        if run.verdict is None:
            await self._go_on(run, failed)

    async def _go_on(self, run: PodRun, failed: Observation | None) -> None:
        if failed is None:
            self._teller.go_on(run)
        else:
            await self._teller.abandon(run, failed)
