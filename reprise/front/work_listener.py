"""One LISTEN connection of a process, fanned out to everybody who waits in it."""

import asyncio
import logging
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn

from reprise.postgresql.direct import lasting
from sessions_app.wakeups import WORK_CHANNEL

logger = logging.getLogger(__name__)

RECONNECT_SECONDS = 2.0


class WorkListener:
    """Wakes waiters of its event loop when the database says that there is work."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.heard = 0
        """Grows with every wake-up: who has looked remembers it, to miss none while looking."""
        self.closing = False

    async def run(self) -> None:
        """Listen until cancelled; a lost connection is made again."""
        self._loop = asyncio.get_running_loop()
        while True:
            try:
                await self._listen()
            except psycopg.Error as error:
                logger.info("LISTEN connection lost: %s", error)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        conn = await psycopg.AsyncConnection.connect(**lasting("reprise-listen"), autocommit=True)
        async with conn:
            await conn.execute(f"LISTEN {WORK_CHANNEL}")
            # Something may have been said while nobody listened.
            self.wake()
            await self._hear(conn.pgconn, conn.fileno())

    async def _hear(self, server: PGconn, descriptor: int) -> None:
        """Wake everybody at each notification. psycopg's own loop looks ten times a second."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                server.consume_input()
                said = False
                while server.notifies() is not None:
                    said = True
                if said:
                    self.wake()
        finally:
            loop.remove_reader(descriptor)

    def wake(self) -> None:
        """Wake everybody who waits now, or who looked before now and is about to wait."""
        self.heard += 1
        for waiter in self._waiters:
            waiter.set()

    def close(self) -> None:
        """Wake everybody, and let nobody wait again."""
        self.closing = True
        self.wake()

    def close_soon(self) -> None:
        """`close` from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    async def wait(self, since: int, timeout: float, gone: "asyncio.Future[Any]") -> None:
        """Until woken since `heard` was `since`, `timeout` seconds passed, or `gone` is done."""
        if self.heard != since:
            return
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        task = asyncio.ensure_future(waiter.wait())
        try:
            await asyncio.wait({task, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            self._waiters.discard(waiter)
