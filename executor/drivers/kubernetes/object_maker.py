"""Makes objects of a cluster, however often that has to be tried."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from executor.clock import boottime
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    NamespaceTransient,
    NamespaceTrouble,
    NotThere,
    Object,
    OwnTrouble,
    TooMany,
    Transient,
)
from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.pod_manifest import Manifest

log = logging.getLogger(__name__)

MOST_REFUSED = 3
"""Tries for which the cluster had no time."""
SETTLES_SECONDS = 60.0
"""An API server's own limit for a call, if nobody has changed it."""
LOOK_SECONDS = 2.0


class Unwanted(ApiRefusal):
    """Nobody asked the API server: the object was not wanted any more."""


@dataclass(frozen=True)
class Patience:
    """How whoever wants an object waits for it.

    It is tried as long as it is `wanted`: of what was made and has gone since there must be no
    second one. `failed` hears of each try that came to nothing, with the number of those tries.
    `rest` waits between two tries. With `must_know` false it does no harm if the object is there
    after all.
    """

    wanted: Callable[[], bool] = lambda: True
    failed: Callable[[Transient, int], None] = lambda _refusal, _tries: None
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    must_know: bool = True


@dataclass
class _Tries:
    """What came of the tries to make one object. Times since boot."""

    began: float
    reason: ApiRefusal
    failed: int = 0
    refused: int = 0
    """For want of patience."""
    open_until: float | None = None
    """Until then a try whose answer was lost may come through."""

    @property
    def is_open(self) -> bool:
        """Whether a try whose answer was lost may still come through."""
        return self.open_until is not None and boottime() < self.open_until

    def note(self, refusal: Transient, settles_in: float) -> None:
        self.reason = refusal
        self.failed += 1
        self.refused += isinstance(refusal, TooMany)
        if refusal.unsure:
            self.open_until = boottime() + settles_in


class ObjectMaker:
    """`calls` limits what is under way at one time; with `create_namespaces` one that is missing is
    made on the way. The API server works on one call for `settles_in` seconds at most."""

    def __init__(
        self,
        cluster: Cluster,
        calls: asyncio.Semaphore,
        *,
        create_namespaces: bool,
        settles_in: float = SETTLES_SECONDS,
    ):
        self._cluster = cluster
        self._calls = calls
        self._create_namespaces = create_namespaces
        self._settles_in = settles_in

    async def make(
        self, path: str, own_path: str, body: Manifest, patience: Patience = Patience()
    ) -> Object:
        """The object, which an earlier try may have made, as the API server has it.

        Raises what `ApiRefusal` names, and then the object is not there, nor will be: where an
        answer was lost, that is asked until it is known. A `Transient` says that it was not wanted
        any more, or that this has lasted too long; `TooMany`, that the cluster had no time for it
        three times.
        """
        tries = await self._try(path, own_path, body, patience)
        if isinstance(tries, dict):
            return tries
        if tries.open_until is not None and patience.must_know:
            found = await self._find(own_path, body, tries.open_until)
            if found is not None:
                return found
        tries.reason.object = body
        raise tries.reason

    async def _try(
        self, path: str, own_path: str, body: Manifest, patience: Patience
    ) -> Object | _Tries:
        backoff, made = pauses(), False
        tries = _Tries(boottime(), Unwanted("it is not wanted any more"))
        while patience.wanted():
            try:
                try:
                    return await self._make(path, own_path, body)
                except NamespaceTrouble:
                    if made or not await self._made_namespace(body["metadata"]["namespace"]):
                        raise
                    made = True
            except Transient as refusal:
                tries.note(refusal, self._settles_in)
                late = boottime() > tries.began + self._settles_in
                if late or tries.refused >= MOST_REFUSED:
                    return tries
                patience.failed(refusal, tries.failed)
                log.info("creating %s: %s; trying again", own_path, refusal)
                await patience.rest(max(refusal.after, backoff.next()))
            except ApiRefusal as refusal:
                tries.reason = refusal
                # An API server that has just begun knows its rights a moment later. Whoever has to
                # wait for an answer that was lost tries on meanwhile.
                if not (isinstance(refusal, OwnTrouble) and patience.must_know and tries.is_open):
                    return tries
                log.info("creating %s: %s; trying again", own_path, refusal)
                await patience.rest(backoff.next())
        return tries

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
                raise NamespaceTransient(f"it comes and goes: {refusal}", unsure=False) from refusal

    async def _find(self, own_path: str, body: Manifest, open_until: float) -> Object | None:
        """The object, or None if it is not there and cannot come any more, however long it takes
        to hear of that."""
        backoff = pauses()
        while True:
            try:
                async with self._calls:
                    found = await self._look(own_path, body)
                if found is not None or boottime() >= open_until:
                    return found
                pause = min(LOOK_SECONDS, open_until - boottime())
            except ApiRefusal as refusal:
                log.info("whether there is %s is not known: %s", own_path, refusal)
                pause = backoff.next()
            await asyncio.sleep(max(0.0, pause))

    async def _look(self, own_path: str, body: Manifest) -> Object | None:
        try:
            return await self._cluster.call("GET", own_path)
        except NotThere:
            return None
        except NamespaceTrouble:
            if body.get("kind") != "Pod":
                raise
        # A namespace that goes takes our rights in it along. Pods are seen everywhere.
        metadata = body["metadata"]
        fields = f"metadata.namespace={metadata['namespace']},metadata.name={metadata['name']}"
        listed = await self._cluster.list("/api/v1/pods", fields=fields)
        return listed.items[0] if listed.items else None

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
