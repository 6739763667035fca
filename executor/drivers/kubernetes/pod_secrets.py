"""Gives a pod its secrets: an object of the cluster that goes with it.

The pod comes first, and says in an annotation that its Secret is awaited: until that is there, no
node starts its container. The Secret names the pod as its owner, so that there is none without its
pod, whoever dies when. Then the annotation goes. An agent that finds it knows that the one before
has died in between, and took along what was to be in the Secret.
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
from executor.failpoints import reach

log = logging.getLogger(__name__)


class SecretGiver:
    """`calls` limits what is under way at one time.

    Nothing is read of secrets, so that no right to is needed: what has the name of this lease's is
    this lease's.
    """

    def __init__(self, cluster: Cluster, calls: asyncio.Semaphore, executor: str):
        self._cluster = cluster
        self._calls = calls
        self._executor = executor

    async def give(self, run: PodRun, order: Order, owner: Mapping[str, Any]) -> None:
        """Make the Secret of a run, and note that on `owner`, its first pod as the cluster has it.

        Tries until the run is to stop; raises what `ApiRefusal` names.
        """
        body = pod_manifest.secret(
            order, executor=self._executor, namespace=run.namespace, owner=owner
        )
        path, uid = f"/api/v1/namespaces/{run.namespace}/secrets", owner["metadata"]["uid"]
        first, mark = run.path(run.names[0]), pod_names.AWAITS_SECRET
        reach("executor.before_secret_create")
        try:
            with suppress(Exists):
                await self._insist(run, lambda: self._cluster.create(path, body))
        except ApiRefusal as refusal:
            # What is tried until it is allowed: none of what it would hold.
            refusal.object = {**body, "stringData": {}}
            raise
        reach("executor.after_secret_create")
        # A pod that is not there any more is seen to be gone.
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
                log.info("the secrets of session %s: %s; trying again", run.key, refusal)
                await _pause(run, max(refusal.after, backoff.next()))


async def _pause(run: PodRun, seconds: float) -> None:
    """Wait, or until something is known of the run: it may be that it is to stop."""
    await asyncio.wait([run.next_change], timeout=seconds)
