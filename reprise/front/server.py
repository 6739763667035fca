"""uvicorn as the server of a front: answers held calls before it stops, and is quiet while idle."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from reprise.front.app import Front
from reprise.front.connection import Connection

KEEP_ALIVE_SECONDS = 620
"""Seconds that an idle connection is kept: longer than clients and proxies do, so that they close
it. A call that is sent while the server closes is lost. Clients keep theirs for 5 s (httpx) to 300
s (browsers), Caddy for 120 s, nginx for 60 s, cloud load balancers for up to 600 s."""


class Server(uvicorn.Server):
    """Waits for an event to stop; uvicorn's own server polls ten times a second.

    `ready` is called once it accepts connections. `grace` is the number of seconds for calls in
    threads to finish; held calls are answered at once.
    """

    def __init__(
        self, wsgi: Any, *, grace: int, ready: Callable[[], None] = lambda: None, **options: Any
    ):
        self._front = Front(wsgi)
        config = uvicorn.Config(
            self._front,
            http=Connection,
            lifespan="on",
            # All loggers of the process share one configuration.
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=grace,
            server_header=False,
            # Only REPRISE_TRUSTED_PROXIES decides whose forwarded addresses are believed.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            **options,
        )
        super().__init__(config)
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()

    async def main_loop(self) -> None:
        """Tick once a second while serving, for the date in answers, until stopped."""
        self._loop = asyncio.get_running_loop()
        self._ready()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 1.0)

    def stop_soon(self) -> None:
        """Answer held calls and stop the server; from another thread or a signal handler.

        uvicorn itself tells the application that it stops only when nothing is left to answer.
        """
        self._front.close()
        self.should_exit = True
        # It may have ended by itself.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stopped.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop in order on SIGTERM and SIGINT; stop at once on a second SIGINT.

        uvicorn's own handler lets the process end by the signal after the stop, which supervisors
        take for a failure.
        """
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.stop_soon()
