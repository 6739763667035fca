"""gunicorn's worker with separate threads for `/healthz` and `/readyz`.

Probes must answer even when all other threads wait for the database.
"""

import selectors
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

PROBES = ("/healthz", "/readyz")
_BEGINNINGS = tuple(f"GET {path}".encode() for path in PROBES)
_PEEK = max(map(len, _BEGINNINGS))
THREADS = 2


class ProbeLaneWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is untyped
    """gunicorn's worker, but a connection gets a thread only once its request can be peeked at."""

    def init_process(self) -> None:
        """Create the threads for probes, in the process that serves."""
        self._probes = ThreadPoolExecutor(THREADS, thread_name_prefix="probe")
        super().init_process()

    def enqueue_req(self, conn: Any) -> None:
        """Give a connection to a thread, or wait for its first bytes."""
        if not conn.initialized and not conn.data_ready:
            self._await(conn)
            return
        lane = self._probes if _is_probe(conn.sock) else self.tpool
        future = lane.submit(self.handle, conn)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def _await(self, conn: Any) -> None:
        """Register a connection until it is readable, as `finish_request` does with idle ones."""
        conn.sock.setblocking(False)
        conn.timeout = time.monotonic() + self.cfg.keepalive
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)


def _is_probe(sock: socket.socket) -> bool:
    try:
        begins = sock.recv(_PEEK, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return False
    return begins.startswith(_BEGINNINGS)
