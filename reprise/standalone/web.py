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
"""Longer than clients and proxies keep idle connections, so that they are the ones that close them:
a call that is sent while the server closes is lost. Clients keep theirs for 5 s (httpx) to 300 s
(browsers), Caddy for 120 s, nginx for 60 s, balancers of clouds for up to 600 s."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; taken before anything else is started. Port 0 takes a free one."""
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
    # A port is taken (EADDRINUSE) or is root's (EACCES); all else is about the address.
    option = "--port" if error.errno in {errno.EADDRINUSE, errno.EACCES} else "--host"
    return f"{error.strerror}; choose another one with {option}"


class _Server(uvicorn.Server):
    """uvicorn's own looks ten times a second whether it is to stop; this one is told."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()

    async def main_loop(self) -> None:
        """uvicorn's hook, while it serves; the date in its answers is by the second."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 1.0)

    def stop_soon(self) -> None:
        """Stop; from another thread."""
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
            # All loggers of a process write alike.
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            server_header=False,
            # Whom to believe about addresses is said by REPRISE_TRUST_PROXY alone.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._server = _Server(config)
        self._listener = listener
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what is held, finish what runs, stop."""
        self._front.close()
        self._server.stop_soon()
        self._thread.join(timeout=GRACE_SECONDS + 1)

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()
