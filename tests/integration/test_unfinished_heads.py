"""Heads that do not come, or do not end, are ended by the front. Real sockets."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest

from reprise.front.connection import LONGEST_HEAD
from tests.streaming import PATIENCE
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
MANY = 300


@pytest.fixture
def limits(settings: Any) -> Any:
    def change(**numbers: float) -> None:
        settings.REPRISE = {**settings.REPRISE, **numbers}

    return change


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begin(port: int, stack: ExitStack, sent: bytes = HEAD) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    stack.enter_context(connection)
    connection.sendall(sent)
    return connection


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


@pytest.mark.parametrize("sent", [b"", b"G", HEAD])
def test_a_head_that_does_not_come_is_ended(
    limits: Any, port: int, connections: ExitStack, sent: bytes
) -> None:
    limits(head_timeout=1.5)
    began = time.monotonic()
    connection = begin(port, connections, sent)
    assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began >= 1.5
    assert connection.recv(100) == b""


def test_a_head_by_the_byte_is_ended(limits: Any, port: int, connections: ExitStack) -> None:
    limits(head_timeout=1.5)
    connection = begin(port, connections, b"GET / HTTP/1.1\r\nX: ")
    connection.settimeout(0.05)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(TimeoutError):
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
            return
        connection.sendall(b"x")
    pytest.fail("it goes on for ever")


def test_a_head_on_a_kept_connection_is_ended(
    limits: Any, port: int, connections: ExitStack
) -> None:
    """The pause between two calls may be long; the next head may not."""
    limits(head_timeout=1.5)
    connection = begin(port, connections, HEAD + b"\r\n")
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    time.sleep(2.5)
    assert is_open(connection)
    connection.setblocking(True)
    connection.settimeout(PATIENCE)
    connection.sendall(HEAD + b"\r\n" + HEAD)
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in received


def test_one_client_has_so_many_unfinished_heads(port: int, connections: ExitStack) -> None:
    """With the defaults: 300 connections, of which 64 may stay, and none for 20 s."""
    began = time.monotonic()
    made = [begin(port, connections) for _ in range(MANY)]
    until(lambda: sum(map(is_open, made)) <= 64)
    # Who says a whole head is served, whatever others do.
    answer = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE)
    assert answer.status_code == 200
    until(lambda: not any(map(is_open, made)), seconds=20 - (time.monotonic() - began))
    # They have left no trace: the same number may come again.
    again = [begin(port, connections) for _ in range(60)]
    time.sleep(2)
    assert all(map(is_open, again))


def test_a_burst_of_connections_is_served(limits: Any, port: int, connections: ExitStack) -> None:
    limits(unfinished_heads_per_address=1)
    made = [begin(port, connections) for _ in range(40)]
    for each in made:
        each.sendall(b"\r\n")
    for each in made:
        assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_head_without_end_is_refused(port: int, connections: ExitStack) -> None:
    connection = begin(port, connections, HEAD + b"X: ")
    answer = b""
    with suppress(ConnectionError):
        for _ in range(LONGEST_HEAD // 4096 * 4):
            connection.sendall(b"x" * 4096)
            connection.settimeout(0.01)
            with suppress(TimeoutError):
                answer += connection.recv(100)
                break
    assert answer.startswith(b"HTTP/1.1 431 ")
