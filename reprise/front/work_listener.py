"""The LISTEN connection of a process, which serves all coroutines that wait for work."""

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
    """Wakes waiting coroutines of its event loop when the database notifies that there is work."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.wake_ups = 0
        """Number of wake-ups. Remember it before a check for work, to miss none."""
        self.closing = False

    async def run(self) -> None:
        """Listen until cancelled; reconnect after a lost connection."""
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
            # Notifications may have been missed while nobody listened.
            self.wake()
            await self._hear(conn.pgconn, conn.fileno())

    async def _hear(self, server: PGconn, descriptor: int) -> None:
        """Wake everybody at each notification. psycopg's own loop would poll ten times a second."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                server.consume_input()
                notified = False
                while server.notifies() is not None:
                    notified = True
                if notified:
                    self.wake()
        finally:
            loop.remove_reader(descriptor)

    def wake(self) -> None:
        """Wake all who wait now, and all who checked before now and are about to wait."""
        self.wake_ups += 1
        for waiter in self._waiters:
            waiter.set()

    def close(self) -> None:
        """Wake everybody, and let nobody wait again."""
        self.closing = True
        self.wake()

    def close_soon(self) -> None:
        """Do what `close` does, from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    async def wait(self, since: int, timeout: float, gone: "asyncio.Future[Any]") -> None:
        """Wait for a wake-up after `since`, for `timeout` seconds, or until `gone` is done."""
        if self.wake_ups != since:
            return
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        task = asyncio.ensure_future(waiter.wait())
        try:
            await asyncio.wait({task, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            self._waiters.discard(waiter)
