"""A receiver of webhooks: a real HTTP server on this machine that answers as the test says."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Got:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, Any]:
        """The body, if it is signed with a secret; else raises."""
        found: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return found


@dataclass
class Says:
    """An answer; `wait` is called before it is given."""

    code: int = 204
    headers: dict[str, str] | None = None
    body: bytes = b""
    wait: Callable[[], object] = lambda: None


class Receiver:
    """The requests that came, in order; `answer` says what to reply to a request."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.got: list[Got] = []
        self.answer: Callable[[Got], Says] = lambda _: Says()
        self._lock = threading.Lock()
        self.now = self.most = 0
        """Requests that are being answered, and the most there ever were."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.handle(self)

            def log_message(self, *_: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                return  # the sender was killed

        self._server = Server((address, 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["content-length"])
        body = request.rfile.read(length)
        if len(body) < length:
            return  # the sender was killed
        headers = {key.lower(): value for key, value in request.headers.items()}
        got = Got(request.path, headers, body)
        with self._lock:
            self.got.append(got)
            self.now += 1
            self.most = max(self.most, self.now)
        status = self.answer(got)
        status.wait()
        with self._lock:
            self.now -= 1
        request.send_response(status.code)
        for name, value in {
            **(status.headers or {}),
            "content-length": str(len(status.body)),
        }.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(status.body)

    def ids(self) -> list[str]:
        return [got.id for got in self.got]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def receiving(address: str = "127.0.0.1") -> Iterator[Receiver]:
    made = Receiver(address)
    made.start()
    try:
        yield made
    finally:
        made.stop()
