"""The web server as a thread of this process."""

import asyncio
import errno
import socket
import threading
from contextlib import suppress
from typing import Any

import uvicorn

from reprise.front.app import Front
from reprise.standalone.errors import StandaloneError

GRACE_SECONDS = 2
KEEP_ALIVE_SECONDS = 620
"""Seconds that an idle connection is kept: longer than clients and proxies do, so that they close
it. A call that is sent while the server closes is lost. Clients keep theirs for 5 s (httpx) to 300
s (browsers), Caddy for 120 s, nginx for 60 s, cloud load balancers for up to 600 s."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; opened before anything else starts. Port 0 means any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise StandaloneError(f"cannot listen on {host} port {port}: {_reason(error)}") from error
    return listener


def _reason(error: OSError | OverflowError) -> str:
    if not isinstance(error, OSError):
        return "a port is between 0 and 65535; choose another one with --port"
    # A port is taken (EADDRINUSE) or is reserved for root (EACCES); else the address is wrong.
    option = "--port" if error.errno in {errno.EADDRINUSE, errno.EACCES} else "--host"
    return f"{error.strerror}; choose another one with {option}"


class _Server(uvicorn.Server):
    """A uvicorn server that waits for an event to stop; uvicorn's own polls ten times a second."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()

    async def main_loop(self) -> None:
        """Tick once a second while serving, for the date in answers, until stopped."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 1.0)

    def stop_soon(self) -> None:
        """Stop the server; from another thread."""
        self.should_exit = True
        # It may have ended by itself.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stopped.set)


class Web:
    """uvicorn, serving the front on a socket that is already open."""

    name = "web server"

    def __init__(self, wsgi: Any, listener: socket.socket):
        self._front = Front(wsgi)
        config = uvicorn.Config(
            self._front,
            # All loggers of the process share one configuration.
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            server_header=False,
            # Only REPRISE_TRUST_PROXY decides whose forwarded addresses are believed.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._server = _Server(config)
        self._listener = listener
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer held calls, finish running ones, stop."""
        self._front.close()
        self._server.stop_soon()
        self._thread.join(timeout=GRACE_SECONDS + 1)

    @property
    def alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()
