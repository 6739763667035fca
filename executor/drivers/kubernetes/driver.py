"""Runs sessions as pods of a Kubernetes cluster."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import ceil
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from reprise_client.wire import LeaseKey, Node, Spec

from executor.drivers.kubernetes import pod_manifest, pod_names
from executor.drivers.kubernetes.pod_keeper import PodKeeper
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_settings import PodSettings
from executor.drivers.protocol import Left, Observation, Order, facts
from executor.drivers.wake_up import WakeUp
from executor.runs import RunFiles

PROJECT = "REPRISE_PROJECT"
CLOSE_SECONDS = 2.0


class KubernetesDriver:
    """The `kubernetes` driver. `Driver` says what each method promises.

    Everything happens on an event loop in a thread of its own, `pods`. The agent's main thread
    calls the methods here, which only pass requests to that loop. The thread `leases` reads the
    properties and `nodes`, too.
    """

    name = "kubernetes"
    keeps_files = True
    outlives_agent = True

    def __init__(self, settings: PodSettings):
        self._settings = settings
        self._wake_up = WakeUp()
        self._seen: SimpleQueue[Observation] = SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._serving: asyncio.Task[None] | None = None
        self._ready = Event()
        self._closed = Event()
        self._keeper: PodKeeper
        Thread(name="pods", target=self._serve, daemon=True).start()
        self._ready.wait()

    @property
    def surveyed(self) -> bool:
        return self._keeper.observer.surveyed

    @property
    def trouble(self) -> str:
        return self._keeper.troubles.text

    @property
    def project_troubles(self) -> Mapping[str, str]:
        return self._keeper.troubles.of_projects

    @property
    def warnings(self) -> Sequence[str]:
        return self._keeper.warnings

    def forget_troubles(self, projects: Iterable[str]) -> None:
        gone = list(projects)
        self._ask(lambda keeper: keeper.troubles.forget(gone))

    def nodes(self, held: Iterable[Mapping[str, Any]]) -> list[Node]:
        return self._keeper.nodes.nodes

    @property
    def extended_tolerations(self) -> bool:
        return self._keeper.tolerations.added

    def refusal(self, spec: Spec) -> str | None:
        """Return None: a session that no pod can be made of is accepted and then ends as
        invalid."""
        return None

    def caveat(self, spec: Spec) -> str:
        return ""

    def start(self, order: Order) -> None:
        namespace = pod_names.namespace(self._settings.namespaces, order.environ.get(PROJECT, ""))
        try:
            bodies = pod_manifest.manifests(
                order,
                executor=self._settings.executor,
                namespace=namespace,
                refused=self._settings.refused,
                security=self._settings.security,
                defaults=self._settings.defaults,
            )
        except pod_manifest.ManifestError as error:
            termination = facts(None, "ValidationError", pod_message=str(error))
            self._emit(Observation(order.key, "ERROR", "", str(error), termination))
            return
        # The record is written before the pods are created, so that no pod lacks one.
        place = Place.of_manifests(bodies, order.nodes)
        place.write(order.files)
        self._ask(lambda keeper: keeper.orders.start(order, place, bodies))

    def stop(self, key: LeaseKey, grace: float) -> None:
        # With a grace of 0 the cluster forgets a pod before anybody has seen it stop.
        seconds = max(1, ceil(grace))
        self._ask(lambda keeper: keeper.orders.stop(key, seconds))

    def poll(self, timeout: float | None) -> list[Observation]:
        if self._seen.empty():
            self._wake_up.wait(timeout)
        seen = []
        with suppress(Empty):
            while True:
                seen.append(self._seen.get_nowait())
        return seen

    def wake(self) -> None:
        self._wake_up.set()

    def reclaim(self, files: RunFiles) -> Left:
        known = Place.read(files)
        place = known or self._keeper.strays.place_of(files.key)
        if place is None:
            return Left.UNBEGUN
        if known is None:
            place.write(files)
        self._ask(lambda keeper: keeper.orders.reclaim(files, place))
        return Left.GOES_ON

    def retire(self) -> None:
        self._ask(lambda keeper: keeper.orders.retire())

    @property
    def retired(self) -> bool:
        return self._keeper.orders.retired and self._seen.empty()

    def release(self, key: LeaseKey) -> None:
        self._ask(lambda keeper: keeper.cleaner.release(key))

    def close(self) -> None:
        """Stop serving. The pods go on."""
        self._loop.call_soon_threadsafe(lambda: self._serving and self._serving.cancel())
        self._closed.wait(CLOSE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._keep())
        self._closed.set()

    async def _keep(self) -> None:
        self._keeper = PodKeeper(self._settings, self._emit, self._wake_up.set)
        self._serving = asyncio.create_task(self._keeper.serve())
        # Requests come after the first step of serving.
        self._loop.call_soon(self._ready.set)
        await self._serving

    def _ask(self, what: Callable[[PodKeeper], None]) -> None:
        self._loop.call_soon_threadsafe(what, self._keeper)

    def _emit(self, seen: Observation) -> None:
        self._seen.put(seen)
        self._wake_up.set()
