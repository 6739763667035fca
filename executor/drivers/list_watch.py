"""Keeps up with all objects of one kind: listed, then watched, through whatever happens."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from executor.backoff import Backoff
from executor.clock import boottime
from executor.drivers.kubernetes_api import ApiRefusal, Cluster, Expired, Listed, Object, Transient

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0


@dataclass(frozen=True)
class Seen:
    """`kind` is ADDED, MODIFIED or DELETED."""

    kind: str
    object: Object


@dataclass(frozen=True)
class Failed:
    """It could not be asked; is tried again."""

    refusal: ApiRefusal


def pauses() -> Backoff:
    """Between tries of calls to an API server."""
    return Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)


class ListWatch:
    """What is at `path`, of these labels and fields; a single watch lasts `watch_seconds`. Lists
    hold what `take` makes of each object."""

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

    async def follow(self, *, from_now: bool = False) -> AsyncIterator[Listed | Seen | Failed]:
        """For ever: a list, then what changes, then, when that cannot be told, a list again.

        With `from_now` what was there before is of no interest: there are no lists.
        """
        backoff, version = pauses(), ""
        while True:
            try:
                if not version and from_now:
                    version = await self._cluster.version(self._path)
                elif not version:
                    listed = await self.list()
                    version = listed.version
                    yield listed
                began = boottime()
                async for kind, seen in self._watch(version):
                    backoff.reset()
                    version = str((seen.get("metadata") or {}).get("resourceVersion") or version)
                    if kind != "BOOKMARK":
                        yield Seen(kind, seen)
                if boottime() - began < 1.0:
                    # A server that ends each watch at once would be asked without a break.
                    await asyncio.sleep(backoff.next())
            except Expired:
                version = ""
                await asyncio.sleep(backoff.next())
            except ApiRefusal as refusal:
                yield Failed(refusal)
                after = refusal.after if isinstance(refusal, Transient) else 0.0
                await asyncio.sleep(max(after, backoff.next()))

    def _watch(self, version: str) -> AsyncIterator[tuple[str, Object]]:
        # Watches that began together need not end together.
        seconds = self._watch_seconds * random.uniform(0.8, 1.0)  # noqa: S311
        return self._cluster.watch(
            self._path, version, seconds=seconds, labels=self._labels, fields=self._fields
        )
