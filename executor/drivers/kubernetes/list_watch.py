"""Follows all objects of one kind: it lists them, then watches, and recovers from any failure."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from executor.backoff import Backoff
from executor.clock import boottime
from executor.drivers.kubernetes.api import OPENED, Cluster, Listed
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Expired, Object, Transient

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0
MOST_FAILURES = 3
"""Failed watches in a row from one version before it lists again.

The version itself may be the cause, even if the error does not say so.
"""


@dataclass(frozen=True)
class Seen:
    """A change of an object. `kind` is ADDED, MODIFIED or DELETED."""

    kind: str
    object: Object


@dataclass(frozen=True)
class Opened:
    """A watch has begun. It stays silent until something changes."""


@dataclass(frozen=True)
class Failed:
    """A list or a watch failed. It will be tried again."""

    refusal: ApiRefusal


def pauses() -> Backoff:
    """Return the pauses between tries of calls to an API server."""
    return Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)


class ListWatch:
    """The objects at `path` with these labels and fields.

    A single watch lasts `watch_seconds`. Lists hold only what `take` returns of each object.
    """

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        take: Callable[[Object], Object] | None = None,
        watch_seconds: float,
    ):
        self._cluster = cluster
        self._path = path
        self._labels = labels
        self._fields = fields
        self._take = take
        self._watch_seconds = watch_seconds

    async def list(self) -> Listed:
        return await self._cluster.list(
            self._path, labels=self._labels, fields=self._fields, take=self._take
        )

    async def follow(
        self, *, from_now: bool = False
    ) -> AsyncIterator[Listed | Opened | Seen | Failed]:
        """Yield a list, then its changes; list again when a watch cannot go on. It never ends.

        With `from_now` older objects do not matter, so the lists are empty.
        """
        backoff, version = pauses(), ""
        while True:
            try:
                if not version:
                    listed = await self._begin(from_now)
                    version = listed.version
                    yield listed
                began = boottime()
                async for reached, news in self._watch(version):
                    version = reached
                    if not isinstance(news, Opened):
                        backoff.reset()
                    if news is not None:
                        yield news
                if boottime() - began < 1.0:
                    # Without a pause, a server that ends each watch at once would be asked in a
                    # tight loop.
                    await asyncio.sleep(backoff.next())
            except Expired:
                version = ""
                await asyncio.sleep(backoff.next())
            except ApiRefusal as refusal:
                yield Failed(refusal)
                if backoff.failures >= MOST_FAILURES:
                    version = ""
                after = refusal.after if isinstance(refusal, Transient) else 0.0
                await asyncio.sleep(max(after, backoff.next()))

    async def _begin(self, from_now: bool) -> Listed:
        if not from_now:
            return await self.list()
        return Listed([], await self._cluster.version(self._path), boottime())

    async def _watch(self, version: str) -> AsyncIterator[tuple[str, Opened | Seen | None]]:
        """Yield each event with the version that it leads to."""
        # Watches that began together should not all end together.
        seconds = self._watch_seconds * random.uniform(0.8, 1.0)  # noqa: S311
        events = self._cluster.watch(
            self._path, version, seconds=seconds, labels=self._labels, fields=self._fields
        )
        async for kind, seen in events:
            if kind == OPENED:
                yield version, Opened()
                continue
            version = str(seen["metadata"].get("resourceVersion") or version)
            yield version, None if kind == "BOOKMARK" else Seen(kind, seen)
