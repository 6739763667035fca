"""Takes pods away: those that must stop, and those whose end was read."""

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
from executor.failpoints import reach

log = logging.getLogger(__name__)

REMOVED_AT_ONCE = 4
"""Pods that are over, and hold nothing up: those that are yet to run go before them."""
STUBBORN_SECONDS = 5.0
"""Between tries to delete what cannot be."""


class PodRemover:
    """`calls` limits what is under way at one time; `gone` is called with the pods that turn out
    not to be there any more."""

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
        """Asks until the API server has understood."""
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
                log.error("pod %s cannot be deleted: %s", name, refusal)
                await asyncio.sleep(STUBBORN_SECONDS)
            except ApiRefusal as refusal:
                after = refusal.after if isinstance(refusal, Transient) else 0.0
                await asyncio.sleep(max(after, backoff.next()))

    async def remove(self, path: str, known: Known) -> bool:
        """Whether no more has to be done about this pod."""
        try:
            async with self._removals:
                reach("executor.before_pod_unhold")
                await self._unhold(path, known)
                reach("executor.after_pod_unhold")
                if not known.deleted:
                    await self._cluster.delete(path, known.uid, None)
        except (NotThere, Exists):
            return True
        except Invalid as refusal:
            log.warning("pod %s is left as it is: %s", path, refusal)
            return True
        except ApiRefusal as refusal:
            log.info("pod %s cannot be removed yet: %s", path, refusal)
            return False
        return True

    async def remove_late(self, pod: Object) -> None:
        """Removes a pod of a run that was let go of: an order to make it came through late, or one
        to delete it did not. What is left is met again by the next list."""
        known = Known.of(pod)
        if known.held or not known.deleted:
            await self.remove(path_of_pod(pod), known)

    async def _unhold(self, path: str, known: Known) -> None:
        if known.held:
            await self._cluster.drop_finalizer(path, known.uid, pod_names.FINALIZER)

    async def unhold_deleted(self, run: PodRun, name: str) -> None:
        """Lets go of a pod that will never say more than it has; the watch sees it gone."""
        try:
            async with self._calls:
                if (known := run.known.get(name)) is not None:
                    await self._unhold(run.path(name), known)
        except (NotThere, Invalid):
            self._gone(run, name)
        except ApiRefusal as refusal:
            log.info("pod %s is still held: %s", name, refusal)
            run.deleting.discard(f"held {name}")
