"""Makes objects of a cluster, however often that has to be tried."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from executor.drivers.kubernetes_api import (
    ApiRefusal,
    Cluster,
    Exists,
    NotThere,
    Object,
    OwnTrouble,
    Transient,
)
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

    async def make(
        self,
        path: str,
        own_path: str,
        body: Manifest,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Object:
        """The object, which an earlier try may have made, as the API server has it.

        It is tried as long as it is `wanted`: of what was made and has gone since there must be no
        second one. Raises what `ApiRefusal` names, and then the object is not there: where an
        answer was lost, that is asked until it is known.
        """
        backoff, tries, unsure, made = pauses(), 0, False, False
        reason: ApiRefusal = Transient("it is not wanted any more", unsure=False)
        while tries < CREATE_TRIES and wanted():
            try:
                try:
                    return await self._make(path, own_path, body)
                except OwnTrouble:
                    if made or not await self._made_namespace(body["metadata"]["namespace"]):
                        raise
                    made = True
            except Transient as refusal:
                tries += 1
                reason, unsure = refusal, unsure or refusal.unsure
                if tries < CREATE_TRIES:
                    log.info("creating %s: %s; trying again", own_path, refusal)
                    await asyncio.sleep(max(refusal.after, backoff.next()))
            except ApiRefusal as refusal:
                reason = refusal
                break
        found = await self._find(own_path) if unsure else None
        if found is None:
            raise reason
        return found

    async def _make(self, path: str, own_path: str, body: Manifest) -> Object:
        async with self._calls:
            try:
                return await self._cluster.create(path, body)
            except Exists:
                pass
            try:
                return await self._cluster.call("GET", own_path)
            except NotThere as refusal:
                # It has gone since, or it was something else that two have changed at one time.
                raise Transient(f"it comes and goes: {refusal}", unsure=False) from refusal

    async def _find(self, own_path: str) -> Object | None:
        """The object, or None if it is not there, however long it takes to hear of that."""
        backoff = pauses()
        while True:
            try:
                async with self._calls:
                    return await self._cluster.call("GET", own_path)
            except NotThere:
                return None
            except ApiRefusal as refusal:
                log.info("whether there is %s is not known: %s", own_path, refusal)
                await asyncio.sleep(backoff.next())

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
