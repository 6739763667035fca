"""A server among several processes that accept from one listening socket."""

import asyncio
import logging
import socket
from typing import Any

from reprise.front.server import Server

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.002
"""Time that each open connection of a process leaves to others to take the next one."""
LONGEST_PAUSE = 0.05
REFUSED_PAUSE = 1.0
"""Seconds until the next try after the kernel refused a connection, for want of descriptors."""


class SharedServer(Server):
    """Takes one connection at a time, later the more it has, so that all get about as many.

    uvicorn would take all that wait. An agent has a handful of connections and keeps them: by
    chance all would be of one process, which would then do all the work.
    """

    def __init__(self, wsgi: Any, listener: socket.socket, **options: Any):
        super().__init__(wsgi, **options)
        self._listener = listener
        self._pending: set[asyncio.Task[Any]] = set()

    async def main_loop(self) -> None:
        """Accept connections until stopped."""
        self._listener.setblocking(False)
        self._watch()
        await super().main_loop()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    def _watch(self) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listener, self._wait)

    def _wait(self) -> None:
        """Leave a connection that has come to processes with fewer ones."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        pause = PAUSE_SECONDS * len(self.server_state.connections)
        loop.call_later(min(pause, LONGEST_PAUSE), self._take)

    def _take(self) -> None:
        if self.should_exit:
            return
        loop, pause = asyncio.get_running_loop(), 0.0
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            pass  # another process was first, or the client has gone
        except OSError as error:
            logger.error("no connection is accepted: %s", error)
            pause = REFUSED_PAUSE
        else:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
        loop.call_later(pause, self._watch)

    def _protocol(self) -> asyncio.Protocol:
        """Return uvicorn's protocol for a connection, as its own servers do."""
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return made
