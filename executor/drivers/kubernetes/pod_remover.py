"""Deletes pods: those that must stop, and those whose end was read."""

import asyncio
import logging
from collections.abc import Callable

from executor.clock import boottime
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    Invalid,
    NotThere,
    Object,
    Transient,
)
from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.pod_run import Known, PodRun, path_of_pod
from executor.failpoints import failpoint

log = logging.getLogger(__name__)

REMOVED_AT_ONCE = 4
"""Removals at one time of pods that are over. They give way to pods that are yet to run."""
STUBBORN_SECONDS = 5.0
"""Pause between tries to delete a pod whose deletion is refused."""


class PodRemover:
    """Deletes pods. `calls` limits the calls at one time.

    It calls `gone` for each pod that turns out not to exist any more. All calls are on the loop
    that serves, in the thread `pods`.
    """

    def __init__(
        self,
        cluster: Cluster,
        calls: asyncio.Semaphore,
        gone: Callable[[PodRun, str], None],
    ):
        self._cluster = cluster
        self._calls = calls
        self._removals = asyncio.Semaphore(REMOVED_AT_ONCE)
        self._gone = gone

    async def delete(self, run: PodRun, name: str) -> None:
        """Ask the API server to delete the pod until it has accepted that."""
        backoff, grace = pauses(), run.grace
        run.asked_at.setdefault(name, boottime())
        while (known := run.known.get(name)) is not None and not known.over:
            try:
                async with self._calls:
                    await self._cluster.delete(run.path(name), known.uid, grace)
                return
            except (NotThere, Exists):
                self._gone(run, name)
            except Invalid as refusal:
                log.error("cannot delete pod %s: %s", name, refusal)
                await asyncio.sleep(STUBBORN_SECONDS)
            except ApiRefusal as refusal:
                after = refusal.after if isinstance(refusal, Transient) else 0.0
                await asyncio.sleep(max(after, backoff.next()))

    async def delete_unbound(self, run: PodRun, name: str) -> bool:
        """Delete a pod only if it is as it was last seen: without a node. Return whether it was.

        While the answer is lost, the API server is asked again: it may have deleted the pod.
        """
        known = run.known.get(name)
        if known is None or known.bound:
            return False
        path, version, backoff, asked = run.path(name), known.version, pauses(), False
        while True:
            try:
                async with self._calls:
                    await self._cluster.delete(path, known.uid, 0, version=version)
                return True
            except NotThere:
                return asked
            except ApiRefusal as refusal:
                asked = asked or (isinstance(refusal, Transient) and refusal.unsure)
                if not asked:
                    log.info("pod %s stays: %s", name, refusal)
                    return False
                if isinstance(refusal, Exists):
                    return await self._is_deleted_unbound(path, known.uid)
            await asyncio.sleep(backoff.next())

    async def _is_deleted_unbound(self, path: str, uid: str) -> bool:
        """Return whether a pod that has changed was deleted before it got a node."""
        backoff = pauses()
        while True:
            try:
                async with self._calls:
                    now = Known.of(await self._cluster.call("GET", path))
                return now.uid != uid or (now.deleted and not now.bound)
            except NotThere:
                return True
            except ApiRefusal as refusal:
                log.info("cannot read pod %s yet: %s", path, refusal)
            await asyncio.sleep(backoff.next())

    async def remove(self, path: str, known: Known) -> bool:
        """Remove a pod that is over. Return whether nothing more has to be done about it."""
        try:
            async with self._removals:
                failpoint("executor.before_pod_unhold")
                await self._unhold(path, known)
                failpoint("executor.after_pod_unhold")
                if not known.deleted:
                    await self._cluster.delete(path, known.uid, None)
        except (NotThere, Exists):
            return True
        except Invalid as refusal:
            log.warning("pod %s is not removed: %s", path, refusal)
            return True
        except ApiRefusal as refusal:
            log.info("cannot remove pod %s yet: %s", path, refusal)
            return False
        return True

    async def remove_late(self, pod: Object) -> None:
        """Remove a pod of a run that was forgotten: its creation came late or its deletion was
        lost.

        If this fails, the next list finds the pod again.
        """
        known = Known.of(pod)
        if known.held or not known.deleted:
            await self.remove(path_of_pod(pod), known)

    async def _unhold(self, path: str, known: Known) -> None:
        if known.held:
            await self._cluster.drop_finalizer(path, known.uid, pod_names.FINALIZER)

    async def unhold_deleted(self, run: PodRun, name: str) -> None:
        """Release a pod that will not report anything more. The watch then sees it go."""
        try:
            async with self._calls:
                if (known := run.known.get(name)) is not None:
                    await self._unhold(run.path(name), known)
        except (NotThere, Invalid):
            self._gone(run, name)
        except ApiRefusal as refusal:
            log.info("pod %s still has its finalizer: %s", name, refusal)
            run.deleting.discard(f"held {name}")
