"""The runs of an executor: by lease and by pod, and whether any waits for its pods."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.runs import RunFiles


class RunBook:
    """All calls are on the loop that serves. To iterate gives the runs of that moment."""

    def __init__(self) -> None:
        self._runs: dict[LeaseKey, PodRun] = {}
        self._by_name: dict[tuple[str, str], PodRun] = {}
        self._unmade: set[LeaseKey] = set()
        self._lull = asyncio.Event()
        self._lull.set()

    def __iter__(self) -> Iterator[PodRun]:
        return iter(list(self._runs.values()))

    def get(self, key: LeaseKey | None) -> PodRun | None:
        return self._runs.get(key) if key else None

    def of_pod(self, namespace: str, name: str) -> PodRun | None:
        return self._by_name.get((namespace, name))

    def add(self, key: LeaseKey, files: RunFiles, place: Place) -> PodRun:
        run = PodRun(key, files, place, SessionTracker(key, list(place.pods)))
        self._runs[key] = run
        for name in place.pods:
            self._by_name[place.namespace, name] = run
        return run

    def forget(self, run: PodRun) -> None:
        self._runs.pop(run.key, None)
        for name in run.names:
            if self._by_name.get((run.namespace, name)) is run:
                del self._by_name[run.namespace, name]

    def begin_making(self, run: PodRun) -> None:
        self._unmade.add(run.key)
        self._lull.clear()

    def end_making(self, run: PodRun) -> None:
        self._unmade.discard(run.key)
        if not self._unmade:
            self._lull.set()

    def wake_unmade(self) -> None:
        """Wake the runs whose pods could not be created: it may work now."""
        for run in self:
            if not run.created:
                run.touch()

    async def lull(self, seconds: float) -> None:
        """Wait until no pod has to be created, for at most so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._lull.wait(), seconds)
