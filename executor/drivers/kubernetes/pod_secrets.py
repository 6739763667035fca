"""Creates the Secret of a pod, which the pod owns.

The pod is created first, with an annotation that its Secret is awaited. No node starts its
container before the Secret exists. The Secret names the pod as its owner, so it cannot outlive the
pod, whoever dies when. Then the annotation is removed. An agent that finds it knows that the
earlier agent died in between and that the secret values are lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from executor.drivers.kubernetes import pod_manifest, pod_names
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Exists, NotThere, Transient
from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.protocol import Order
from executor.failpoints import failpoint

log = logging.getLogger(__name__)


class SecretGiver:
    """Creates Secrets. `calls` limits the calls at one time.

    It never reads a Secret, so it needs no right to. An object with the name of this lease's Secret
    is this lease's Secret.
    """

    def __init__(self, cluster: Cluster, calls: asyncio.Semaphore, executor: str):
        self._cluster = cluster
        self._calls = calls
        self._executor = executor

    async def give(self, run: PodRun, order: Order, owner: Mapping[str, Any]) -> None:
        """Create the Secret of a run, and note that on `owner`, its first pod as the cluster has
        it.

        It tries until the run has to stop. Raises the errors that `ApiRefusal` names.
        """
        body = pod_manifest.secret(
            order, executor=self._executor, namespace=run.namespace, owner=owner
        )
        path, uid = f"/api/v1/namespaces/{run.namespace}/secrets", owner["metadata"]["uid"]
        first, mark = run.path(run.names[0]), pod_names.AWAITS_SECRET
        failpoint("executor.before_secret_create")
        try:
            with suppress(Exists):
                await self._insist(run, lambda: self._cluster.create(path, body))
        except ApiRefusal as refusal:
            # The refused object is logged and tried again, so it must not hold the values.
            refusal.object = {**body, "stringData": {}}
            raise
        failpoint("executor.after_secret_create")
        # If the pod is gone, the watch sees it.
        with suppress(NotThere, Exists):
            await self._insist(run, lambda: self._cluster.drop_annotation(first, uid, mark))

    async def _insist(self, run: PodRun, call: Callable[[], Awaitable[object]]) -> None:
        backoff = pauses()
        while not run.stopping:
            try:
                async with self._calls:
                    await call()
                return
            except Transient as refusal:
                log.info("cannot get the secrets of session %s: %s; trying again", run.key, refusal)
                await _pause(run, max(refusal.after, backoff.next()))


async def _pause(run: PodRun, seconds: float) -> None:
    """Wait for some seconds, or until something new is known of the run, such as a stop."""
    await asyncio.wait([run.next_change], timeout=seconds)
