"""Makes objects of a cluster, however often that has to be tried."""

import asyncio
import logging
from contextlib import suppress

from executor.drivers.kubernetes_api import Cluster, Exists, NotThere, Object, OwnTrouble, Transient
from executor.drivers.list_watch import pauses
from executor.drivers.pod_manifest import Manifest

log = logging.getLogger(__name__)

CREATE_TRIES = 3


class ObjectMaker:
    """`calls` limits what is under way at one time; with `create_namespaces` one that is missing is
    made on the way."""

    def __init__(self, cluster: Cluster, calls: asyncio.Semaphore, *, create_namespaces: bool):
        self._cluster = cluster
        self._calls = calls
        self._create_namespaces = create_namespaces

    async def make(self, path: str, own_path: str, body: Manifest) -> Object:
        """The object, which an earlier try may have made, as the API server has it.

        Raises what `ApiRefusal` names.
        """
        backoff, tries, made = pauses(), 0, False
        while True:
            try:
                async with self._calls:
                    try:
                        return await self._cluster.create(path, body)
                    except Exists:
                        return await self._cluster.call("GET", own_path)
                    except OwnTrouble:
                        if made or not await self._made_namespace(body["metadata"]["namespace"]):
                            raise
                        made = True
            except Transient as refusal:
                tries += 1
                if tries == CREATE_TRIES:
                    raise
                log.info("creating %s: %s; trying again", own_path, refusal)
                await asyncio.sleep(max(refusal.after, backoff.next()))

    async def _made_namespace(self, name: str) -> bool:
        """Whether the namespace was missing, may be made here, and was."""
        if not self._create_namespaces:
            return False
        try:
            await self._cluster.call("GET", f"/api/v1/namespaces/{name}")
        except NotThere:
            pass
        except OwnTrouble as refusal:
            if "not found" not in str(refusal):
                return False
        else:
            return False
        with suppress(Exists):  # Many sessions of a new project begin at one time.
            await self._cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return True
