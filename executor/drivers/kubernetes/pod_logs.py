"""Copies the logs of pods into the files that the agent sends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from executor import descriptors
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, NotThere, Transient
from executor.drivers.kubernetes.list_watch import pauses
from executor.drivers.kubernetes.log_copy import LogCopy
from executor.drivers.kubernetes.pod_run import PodRun
from executor.failure_tail import TAIL_BYTES, goes_on_before, text_of

log = logging.getLogger(__name__)

MOST_FOLLOWED = 300
"""Connections for following logs. The logs of further pods are fetched after their end."""
MOST_FETCHED = 32
"""Logs of ended pods fetched at one time.

Each takes two connections, and thousands of pods may end at once.
"""
LOG_SECONDS = 30.0
LINE_SECONDS = 300.0
"""The two limits of `complete`, in seconds."""
TRIES = 3
LAG_SECONDS = 5.0
MARKS = "output.marks"
TAIL_LINES = 1000
"""Lines to ask for from the end of a log.

A node counts each 16 KiB of a longer line as one, so they have 16 MB at most.
"""
DUMP_LINES = 20 * TAIL_LINES
DUMP_BYTES = 1024 * 1024
"""The same of a log that ends with a dump of many threads, whose lines are short, and the bytes of
them that are in memory while its head is looked for."""
NO_LOG = b"unable to retrieve container logs for "
"""What a kubelet serves in place of a log that is gone."""


class LogKeeper:
    """Copies the output of sessions.

    The log of rank 0 is copied while it is written. The logs of the other ranks follow when all
    pods have ended, in the order of ranks, so that fetching them again gives the same text.
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._slots = asyncio.Semaphore(min(MOST_FOLLOWED, descriptors.limit() // 3))
        self._fetches = asyncio.Semaphore(MOST_FETCHED)

    async def keep(self, run: PodRun) -> None:
        """Copy the whole log of a run into its file, or note there that it cannot be had."""
        try:
            # An earlier agent may have fetched a part.
            copy = LogCopy(run.files.output, run.files.path / MARKS)
            try:
                await self._copy_all(run, copy)
            except asyncio.CancelledError:
                if run.end is not None:
                    copy.note("the rest of the output did not come in time")
                raise
        except OSError as error:
            log.error("cannot keep the output of session %s: %s", run.key, error)

    async def keep_failed(self, run: PodRun, name: str, container: str) -> None:
        """Keep the last output of the container that failed first, for the report of the end.

        If it cannot be read, the file of the run has to do: it has the logs of all ranks, but of
        no other container than the session's.
        """
        known = run.known.get(name)
        if known is None or container != known.main:
            run.failed_output = b""

        async def read() -> None:
            log_end = partial(self._cluster.log_end, run.path(name), container)
            end = await log_end(lines=TAIL_LINES, size=2 * TAIL_BYTES)
            if goes_on_before(end):
                end = await log_end(lines=DUMP_LINES, size=DUMP_BYTES)
            # Thousands of runs may wait for their report: keep no more than that needs.
            run.failed_output = b"" if end.startswith(NO_LOG) else text_of(end).encode()

        if why := await self._fetch(run, name, read):
            log.info("cannot read the log of container %s of pod %s: %s", container, name, why)

    async def complete(self, run: PodRun, kept: "asyncio.Task[None]") -> None:
        """Wait until `keep` has ended, for at most 30 s after its fetch has begun.

        The fetch may wait up to 5 min for its turn. After that, the copied part has to do.
        """
        now = asyncio.get_running_loop().time
        began = now()
        until = began + LOG_SECONDS
        while not kept.done() and now() < until:
            await asyncio.wait([kept], timeout=1.0)
            if run.in_line:
                until = min(now(), began + LINE_SECONDS) + LOG_SECONDS
        kept.cancel()
        # The cancelled task may still write a note about the missing part.
        await asyncio.wait([kept])

    async def _copy_all(self, run: PodRun, copy: LogCopy) -> None:
        for rank, name in enumerate(run.names):
            if rank < copy.rank:
                continue
            if rank == 0 and not self._slots.locked():
                async with self._slots:
                    await self._follow(run, name, copy)
            await _until_over(run, name)
            if rank > copy.rank:
                copy.turn(rank, f"rank {rank}")
            # Fetch the rest even after following to the end: a node that is cut off looks the same.
            await self._rest(run, name, copy)

    async def _follow(self, run: PodRun, name: str, copy: LogCopy) -> None:
        """Follow the log of a pod until the pod has ended or is gone."""
        backoff = pauses()
        while _goes_on(run, name):
            size = copy.size
            if run.known[name].started:
                try:
                    await self._copy_while_alive(run, name, copy)
                except ApiRefusal as refusal:
                    log.debug("cannot read the log of pod %s yet: %s", name, refusal)
            if copy.size > size:
                backoff.reset()
            await _until_changed(run, backoff.next())

    async def _copy_while_alive(self, run: PodRun, name: str, copy: LogCopy) -> None:
        """Follow the log until it ends, or until some seconds after its pod has ended.

        The log may outlast its pod: the node may be gone, and kubelets have lost track of logs that
        they rotate.
        """
        copying = asyncio.ensure_future(self._copy(run, name, copy, follow=True))
        over = asyncio.ensure_future(_until_over(run, name))
        try:
            await asyncio.wait({copying, over}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({copying}, timeout=LAG_SECONDS)
            if copying.done():
                copying.result()
        finally:
            for each in (copying, over):
                each.cancel()
                with suppress(asyncio.CancelledError, ApiRefusal):
                    await each

    async def _rest(self, run: PodRun, name: str, copy: LogCopy) -> None:
        why = await self._fetch(run, name, partial(self._copy, run, name, copy, follow=False))
        known = run.known.get(name)
        if why and known is not None and known.ran:
            copy.note(f"the rest of the output cannot be read: {why}")

    async def _fetch(self, run: PodRun, name: str, read: Callable[[], Awaitable[None]]) -> str:
        """Read a log of an ended pod when it is its turn. Return why it cannot be read; "" if it
        was."""
        backoff, why = pauses(), ""
        for _ in range(TRIES):
            try:
                run.in_line = True
                async with self._fetches:
                    run.in_line = False
                    await read()
                return ""
            except Transient as refusal:
                why = str(refusal)
                log.info("cannot read the log of pod %s yet: %s", name, why)
                await asyncio.sleep(backoff.next())
            except ApiRefusal as refusal:
                return str(refusal)
        return why

    async def _copy(self, run: PodRun, name: str, copy: LogCopy, *, follow: bool) -> None:
        known = run.known.get(name)
        if known is None:
            raise NotThere(f"{name} is gone")
        copy.begin()
        path, since = run.path(name), copy.since
        async for piece in self._cluster.log(path, known.main, since=since, follow=follow):
            copy.write(piece)
        copy.end()


async def _until_over(run: PodRun, name: str) -> None:
    """Wait until this pod has ended, is unknown, or its run has ended."""
    while _goes_on(run, name):
        await _until_changed(run, None)


def _goes_on(run: PodRun, name: str) -> bool:
    known = run.known.get(name)
    return known is not None and not known.over and run.end is None


async def _until_changed(run: PodRun, seconds: float | None) -> None:
    await asyncio.wait([run.next_change], timeout=seconds)
