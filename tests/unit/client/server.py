"""A small HTTP server that answers as Reprise does, from scripts that a test writes."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.waiting import PATIENCE_SECONDS

TOKEN = "rpr_test"


@dataclass(frozen=True)
class Call:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """An answer: `body` is JSON, or bytes that go out as they are. `cut` breaks it off."""

    body: Any = None
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


def problem(status: int, title: str, detail: str = "", **more: Any) -> Reply:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return Reply(body, status, "application/problem+json")


class FakeServer:
    """Each route (`"GET /sessions/"`) has a script of replies; the last one is repeated.

    `calls` are all requests in their order. A wrong token is refused, an unknown route is a 404.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.changed = threading.Condition()
        self._scripts: dict[str, list[Reply]] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def on(self, route: str, *replies: Reply | dict[str, Any] | list[Any]) -> None:
        with self.changed:
            self._scripts[route] = [
                reply if isinstance(reply, Reply) else Reply(reply) for reply in replies
            ]

    def answer(self, call: Call, token: str) -> Reply:
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()
            if token != f"Bearer {TOKEN}":
                return problem(401, "Not authenticated", "The token is unknown or has expired.")
            script = self._scripts.get(f"{call.method} {call.path}")
            if not script:
                return problem(404, "Not found", f"There is nothing at {call.path}.")
            return script.pop(0) if len(script) > 1 else script[0]

    def count(self, method: str, path: str) -> int:
        return sum(1 for call in self.calls if (call.method, call.path) == (method, path))

    def await_call(self, method: str, path: str, seconds: float = PATIENCE_SECONDS) -> None:
        with self.changed:
            arrived = self.changed.wait_for(lambda: self.count(method, path) > 0, seconds)
        assert arrived, f"no {method} {path} within {seconds} s"


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            call = Call(
                self.command,
                url.path.removeprefix("/api/v2"),
                {key: values[-1] for key, values in parse_qs(url.query).items()},
                json.loads(text) if text else None,
            )
            self._send(server.answer(call, self.headers.get("Authorization", "")))

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def _send(self, reply: Reply) -> None:
            body = reply.body
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) + reply.cut))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = self.close_connection or reply.cut

        def log_message(self, *_args: Any) -> None:
            """Keeps the output of the tests clean."""

    return Handler
