"""Creates objects of a cluster and tries as often as needed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from executor.clock import boottime
from executor.drivers.kubernetes import namespaces
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
"""Tries that the cluster may refuse with 429 before the maker gives up."""
SETTLES_SECONDS = 60.0
"""Longest time that an API server works on one call by default."""
LOOK_SECONDS = 2.0


class Unwanted(ApiRefusal):
    """The object was no longer wanted, so the API server was not asked."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of one creation, given by whoever wants the object.

    The maker tries as long as `wanted` returns true: there must be no second object after the first
    was created and deleted. `failed` is called after each failed try with the number of failures.
    `rest` waits between two tries. If `must_know` is false, it does no harm if the object exists
    after all.
    """

    wanted: Callable[[], bool] = lambda: True
    failed: Callable[[Transient, int], None] = lambda _refusal, _tries: None
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    must_know: bool = True


@dataclass
class _Tries:
    """The results of the tries to create one object. Times count from boot."""

    began: float
    reason: ApiRefusal
    failed: int = 0
    refused: int = 0
    """Tries that the cluster refused with 429."""
    open_until: float | None = None
    """Until then a try whose answer was lost may still succeed; None if there is no such try."""

    @property
    def is_open(self) -> bool:
        """Return whether a try whose answer was lost may still succeed."""
        return self.open_until is not None and boottime() < self.open_until

    def note(self, refusal: Transient, settles_in: float) -> None:
        self.reason = refusal
        self.failed += 1
        self.refused += isinstance(refusal, TooMany)
        if refusal.unsure:
            self.open_until = boottime() + settles_in


class ObjectMaker:
    """Creates objects. `calls` limits how many calls run at one time.

    With `create_namespaces` a missing namespace is created first. The API server works on one call
    for at most `settles_in` seconds.
    """

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
        self, path: str, own_path: str, body: Manifest, conditions: Conditions = Conditions()
    ) -> Object:
        """Return the object as the API server has it. An earlier try may have created it.

        Raises the errors that `ApiRefusal` names. Then the object does not exist and will not come
        to exist: if an answer was lost, the maker asks until it knows. A `Transient` means that the
        object was no longer wanted or that it took too long; `TooMany`, that the cluster refused
        three times for lack of time.
        """
        tries = await self._try(path, own_path, body, conditions)
        if isinstance(tries, dict):
            return tries
        if tries.open_until is not None and conditions.must_know:
            found = await self.find(own_path, body, tries.open_until)
            if found is not None:
                return found
        tries.reason.object = body
        raise tries.reason

    async def _try(
        self, path: str, own_path: str, body: Manifest, conditions: Conditions
    ) -> Object | _Tries:
        backoff, made = pauses(), False
        tries = _Tries(boottime(), Unwanted("it is not wanted any more"))
        while conditions.wanted():
            try:
                try:
                    return await self._make(path, own_path, body)
                except NamespaceTrouble as refusal:
                    made = await self._mend_namespace(refusal, body, made=made)
            except Transient as refusal:
                tries.note(refusal, self._settles_in)
                late = boottime() > tries.began + self._settles_in
                if late or tries.refused >= MOST_REFUSED:
                    return tries
                conditions.failed(refusal, tries.failed)
                log.info("creating %s: %s; trying again", own_path, refusal)
                await conditions.rest(max(refusal.after, backoff.next()))
            except ApiRefusal as refusal:
                tries.reason = refusal
                # An API server that has just started may not know its own rights yet. A caller that
                # has to wait for a lost answer goes on trying meanwhile.
                if not (isinstance(refusal, OwnTrouble) and conditions.must_know and tries.is_open):
                    return tries
                log.info("creating %s: %s; trying again", own_path, refusal)
                await conditions.rest(backoff.next())
        return tries

    async def _mend_namespace(
        self, refusal: NamespaceTrouble, body: Manifest, *, made: bool
    ) -> bool:
        """Create the namespace of the object if it is missing and we may; else raise the refusal.

        Return true: it is created once for each object.
        """
        name = body["metadata"]["namespace"]
        if not self._create_namespaces:
            raise await namespaces.explained(self._cluster, refusal, name)
        if made or not await namespaces.is_missing(self._cluster, name):
            raise refusal
        await namespaces.create(self._cluster, name)
        return True

    async def _make(self, path: str, own_path: str, body: Manifest) -> Object:
        async with self._calls:
            try:
                return await self._cluster.create(path, body)
            except Exists:
                pass
            try:
                return await self._cluster.call("GET", own_path)
            except NotThere as refusal:
                # The object has gone since, or the name clashed with another change at the same
                # time.
                raise NamespaceTransient(f"it comes and goes: {refusal}", unsure=False) from refusal

    async def find(self, own_path: str, body: Manifest, open_until: float) -> Object | None:
        """Return the object, or None if it does not exist and, after `open_until`, cannot come to.

        It asks as long as that takes.
        """
        backoff = pauses()
        while True:
            try:
                async with self._calls:
                    found = await self._look(own_path, body)
                if found is not None or boottime() >= open_until:
                    return found
                pause = min(LOOK_SECONDS, open_until - boottime())
            except ApiRefusal as refusal:
                log.info("cannot find out whether %s exists: %s", own_path, refusal)
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
        # When a namespace is deleted, our rights in it go, too. Pods can be listed in all
        # namespaces.
        metadata = body["metadata"]
        fields = f"metadata.namespace={metadata['namespace']},metadata.name={metadata['name']}"
        listed = await self._cluster.list("/api/v1/pods", fields=fields)
        return listed.items[0] if listed.items else None
