"""Follows the pods of an executor, and what the cluster says about them."""

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.api import Cluster, Listed
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Object
from executor.drivers.kubernetes.error_logging import log_errors
from executor.drivers.kubernetes.list_watch import Failed, ListWatch, Seen
from executor.drivers.kubernetes.pod_run import key_of_pod, noted
from executor.drivers.kubernetes.pod_settings import PodSettings
from executor.drivers.kubernetes.trouble import ClusterTrouble

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
TOGETHER_SECONDS = 1.0
"""In which what asks for a list gets the same one."""


class Listener(Protocol):
    """The receiver of changes of pods. It is `surveyed` once it has got a list of all pods."""

    surveyed: bool

    @property
    def misses_pods(self) -> bool: ...
    def listed(self, listed: Listed) -> None: ...
    def seen(self, kind: str, pod: Object) -> None: ...
    def heard(self, event: Object) -> None: ...


class PodWatch:
    """Tells its listener of pods and of events about them, until its tasks are cancelled.

    All calls are on the loop that serves, in the thread `pods`.
    """

    def __init__(
        self,
        settings: PodSettings,
        cluster: Cluster,
        troubles: ClusterTrouble,
        listener: Listener,
    ):
        self._settings = settings
        self._cluster = cluster
        self._troubles = troubles
        self._listener = listener
        self._to_look = asyncio.Event()
        self._pods = ListWatch(
            cluster,
            "/api/v1/pods",
            labels=f"{pod_names.EXECUTOR}={pod_names.label_value(settings.executor)}",
            take=noted,
            watch_seconds=settings.watch_seconds,
        )

    def look_again(self) -> None:
        """List the pods anew as soon as can be, if they were listed before."""
        if self._listener.surveyed:
            self._to_look.set()

    async def pods(self) -> None:
        async for found in self._pods.follow():
            match found:
                case Failed(refusal):
                    self._troubles.watch_failed(refusal)
                    continue
                case Listed():
                    self._listener.listed(found)
                case Seen(kind, pod):
                    with log_errors(key_of_pod(pod)):
                        self._listener.seen(kind, pod)
            self._troubles.watch_answered()

    async def events(self) -> None:
        events = ListWatch(
            self._cluster,
            "/api/v1/events",
            fields="involvedObject.kind=Pod",
            watch_seconds=self._settings.watch_seconds,
        )
        async for found in events.follow(from_now=True):
            if isinstance(found, Seen) and found.kind != "DELETED":
                self._listener.heard(found.object)

    async def relist(self) -> None:
        """Compare the pods that are there with those that should be, whatever the watch has
        reported."""
        while True:
            seconds = self._settings.relist_seconds
            with suppress(TimeoutError):
                pause = min(POLL_SECONDS, seconds) if self._listener.misses_pods else seconds
                await asyncio.wait_for(self._to_look.wait(), pause)
                await asyncio.sleep(TOGETHER_SECONDS)
            self._to_look.clear()
            try:
                self._listener.listed(await self._pods.list())
            except ApiRefusal as refusal:
                log.info("cannot list the pods: %s", refusal)
