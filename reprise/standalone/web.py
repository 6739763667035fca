"""The web server as a thread of this process, and the socket on which it listens."""

import errno
import socket
import threading
from typing import Any

from reprise.front.server import Server
from reprise.standalone.errors import StandaloneError

GRACE_SECONDS = 2


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


class Web:
    """uvicorn, serving the front on a socket that is already open."""

    name = "web server"

    def __init__(self, wsgi: Any, listener: socket.socket):
        self._server = Server(wsgi, grace=GRACE_SECONDS)
        self._listener = listener
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer held calls, finish running ones, stop."""
        self._server.stop_soon()
        self._thread.join(timeout=GRACE_SECONDS + 1)

    @property
    def alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()
