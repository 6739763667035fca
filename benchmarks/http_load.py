"""HTTP clients with almost no overhead, because they share the processors with the server."""

import select
import socket
import time
from dataclasses import dataclass

_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    status: int
    body: bytes


class Client:
    """A connection that stays open."""

    def __init__(self, port: int):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def send(self, request: bytes) -> None:
        """Send a whole request, made by `request_bytes`."""
        self._socket.sendall(request)

    def answer(self) -> Answer | None:
        """Wait for more data, and return the answer if it is complete."""
        data = self._socket.recv(262_144)
        if not data:
            raise SystemExit("the server has closed a connection")
        self._rest += data
        head, blank, body = self._rest.partition(b"\r\n\r\n")
        if not blank:
            return None
        _, _, length = head.lower().partition(_LENGTH)
        if len(body) < int(length.partition(b"\r\n")[0]):
            return None
        self._rest = b""
        return Answer(int(head[9:12]), body)

    def call(self, request: bytes) -> Answer:
        """Send a request and wait for its answer."""
        self.send(request)
        while (answer := self.answer()) is None:
            pass
        return answer


def request_bytes(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    entity_headers = (
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    )
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"{entity_headers}\r\n"
    ).encode() + body


def requests_per_second(port: int, request: bytes, *, clients: int, seconds: float) -> float:
    """Return the rate at which this number of clients, each waiting for its answers, is served."""
    poll = select.epoll()
    connections = {each.fileno(): each for each in (Client(port) for _ in range(clients))}
    try:
        for number, each in connections.items():
            poll.register(number, select.EPOLLIN)
            each.send(request)
        began = time.perf_counter()
        until, done = began + seconds, 0
        while (now := time.perf_counter()) < until:
            for number, _ in poll.poll(until - now):
                answer = connections[number].answer()
                if answer is not None:
                    _must_be_good(answer)
                    done += 1
                    connections[number].send(request)
        return done / (now - began)
    finally:
        poll.close()
        for each in connections.values():
            each.close()


def _must_be_good(answer: Answer) -> None:
    if not 200 <= answer.status < 300:
        raise SystemExit(f"status {answer.status}: {answer.body[:500].decode()}")
