"""Follows what pods write, into the files that the agent ships."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import BinaryIO

from executor.drivers.kubernetes_api import ApiRefusal, Cluster, NotThere, Transient
from executor.drivers.list_watch import pauses
from executor.drivers.pod_run import PodRun

log = logging.getLogger(__name__)

MOST_FOLLOWED = 300
"""Connections; the logs of pods beyond are fetched when they have ended."""
TRIES = 3
LAG_SECONDS = 5.0


class LogKeeper:
    """The output of a session is what its rank 0 writes, as it writes it. When all has ended, that
    of the other ranks comes after it, by rank, so that whoever fetches it again gets the same."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._slots = asyncio.Semaphore(MOST_FOLLOWED)

    async def keep(self, run: PodRun) -> None:
        """Ends when the whole log is in the run's file, or cannot be had."""
        try:
            # An earlier agent may have fetched some of it.
            with run.files.output.open("ab") as file:
                place = _Place(file, file.tell())
                await self._first(run, place)
                for rank in range(1, len(run.names)):
                    await _until_over(run, run.names[rank])
                    place.write(f"\n==== rank {rank} ====\n".encode())
                    place.turn()
                    await self._rest(run, run.names[rank], place)
                    place.turn()
        except OSError as error:
            log.error("the output of session %s is lost: %s", run.key, error)

    async def _first(self, run: PodRun, place: "_Place") -> None:
        name = run.names[0]
        if not self._slots.locked():
            async with self._slots:
                await self._follow_to_end(run, name, place)
        await _until_over(run, name)
        if not place.complete:
            await self._rest(run, name, place)
        place.turn()

    async def _follow_to_end(self, run: PodRun, name: str, place: "_Place") -> None:
        """A connection that is dead says no more than one that has nothing to say. Once the pod has
        ended the log does, too, and the end need not wait for one that does not."""
        following = asyncio.create_task(self._follow(run, name, place))
        try:
            await _until_over(run, name)
            before = -1
            while not following.done() and place.have > before:
                before = place.have
                await asyncio.wait([following], timeout=LAG_SECONDS)
            if following.done():
                await following
        finally:
            following.cancel()

    async def _follow(self, run: PodRun, name: str, place: "_Place") -> None:
        backoff = pauses()
        while (known := run.known.get(name)) is not None and not known.over:
            if known.started:
                try:
                    await self._copy(self._pieces(run, name, follow=True), place)
                    # It ended by itself: so has the container, as will be seen soon.
                    await _until_over(run, name, LAG_SECONDS)
                    place.complete = name not in run.known or run.known[name].over
                except ApiRefusal as refusal:
                    log.debug("log of %s: %s", name, refusal)
            if not place.complete:
                await _until_changed(run, backoff.next())

    async def _rest(self, run: PodRun, name: str, place: "_Place") -> None:
        backoff = pauses()
        for _ in range(TRIES):
            try:
                await self._copy(self._pieces(run, name, follow=False), place)
                return
            except Transient as refusal:
                log.info("log of %s: %s", name, refusal)
                await asyncio.sleep(backoff.next())
            except ApiRefusal as refusal:
                log.debug("log of %s: %s", name, refusal)
                return

    def _pieces(self, run: PodRun, name: str, *, follow: bool) -> AsyncIterator[bytes]:
        known = run.known.get(name)
        if known is None:
            raise NotThere(name)
        return self._cluster.log(run.path(name), known.main, follow=follow)

    async def _copy(self, pieces: AsyncIterator[bytes], place: "_Place") -> None:
        place.begin()
        async for piece in pieces:
            place.write(piece)


class _Place:
    """The end of a file to which logs are copied, each from its beginning as often as need be.

    `have` is how much of all of them the file holds; `_at` is where the copy is.
    """

    def __init__(self, file: BinaryIO, have: int):
        self._file = file
        self.have = have
        self._start = self._at = 0
        self.complete = False

    def begin(self) -> None:
        """The present log is copied from its beginning."""
        self._at = self._start

    def turn(self) -> None:
        """The next log comes after what was copied."""
        self._start = self._at

    def write(self, piece: bytes) -> None:
        new = piece[max(0, self.have - self._at) :]
        self._at += len(piece)
        if new:
            self._file.write(new)
            self._file.flush()
            self.have += len(new)


async def _until_over(run: PodRun, name: str, seconds: float | None = None) -> None:
    """Until this pod has ended or is not known any more."""
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    while (known := run.known.get(name)) is not None and not known.over and run.end is None:
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            return
        await _until_changed(run, left)


async def _until_changed(run: PodRun, seconds: float | None) -> None:
    await asyncio.wait([run.next_change], timeout=seconds)
