"""Bodies that come slowly are ended by the front, and only so many are held. Real sockets."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_network
from typing import Any

import httpx
import pytest

from tests.factories import token, user
from tests.streaming import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

LOGIN = "POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"


@pytest.fixture
def limits(settings: Any) -> Any:
    """Sets the limits of the front."""

    def change(**numbers: float) -> None:
        settings.REPRISE = {**settings.REPRISE, **numbers}

    # The proxy is trusted: tests play clients at many addresses.
    settings.TRUSTED_PROXIES = (ip_network("127.0.0.0/8"),)
    return change


def begin(port: int, address: str, head: str = LOGIN, body: bytes = b"user") -> socket.socket:
    """Begin a call from an address, and send only the beginning of its body."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(f"{head}X-Forwarded-For: {address}\r\n\r\n".encode() + body)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Return what the server says before it closes the connection."""
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/login/", "body_timeout"),
        ("/api/v2/sessions/", "body_timeout"),
        ("/api/v2/sessions/bulk/", "long_body_timeout"),
        ("/api/v2/executors/one/lease/", "long_body_timeout"),
        ("/api/v2/executors/one/reports/", "long_body_timeout"),
    ],
)
def test_a_body_that_is_not_there_in_time_is_ended(
    limits: Any, port: int, path: str, limit: str
) -> None:
    limits(**{"body_timeout": 600, "long_body_timeout": 600, "body_grace": 600, limit: 0.5})
    with begin(port, "192.0.2.1", LOGIN.replace("/login/", path)) as connection:
        response = answer(connection)
    assert response.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come in time" in response


def test_a_body_that_comes_by_the_byte_is_ended(limits: Any, port: int) -> None:
    limits(body_timeout=600, body_grace=0.5)
    with begin(port, "192.0.2.1") as connection:
        connection.settimeout(0.05)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                response = connection.recv(65_536)
                break
            except TimeoutError:
                connection.sendall(b"x")
    assert response.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_fast_enough_is_read(limits: Any, port: int) -> None:
    limits(body_timeout=600, body_grace=0.2, body_bytes_per_second=1000)
    # What is sent with the head is enough for a minute, whatever else the machine does.
    first, last = b" " * 60_000, b"{}"
    head = (
        "POST /api/v2/domains/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {token(user(superuser=True))}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(first + last)}\r\n"
    )
    with begin(port, "192.0.2.1", head, first) as connection:
        time.sleep(0.5)
        connection.sendall(last)
        response = answer(connection)
    assert response.startswith(b"HTTP/1.1 400 ")  # it was read: no name


def test_one_address_holds_sixteen_unfinished_bodies(limits: Any, port: int) -> None:
    limits(unfinished_bodies_per_address=16)
    with ExitStack() as stack:
        held = [stack.enter_context(begin(port, "192.0.2.1")) for _ in range(16)]
        time.sleep(1.5)
        held += [stack.enter_context(begin(port, "192.0.2.1")) for _ in range(5)]
        # The oldest had to go, as many as came.
        for each in held[:5]:
            response = answer(each)
            assert response.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in response.lower()
        for other in held[5:]:
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.recv(1)


def test_all_addresses_hold_so_many_and_whoever_is_new_is_served(limits: Any, port: int) -> None:
    limits(unfinished_bodies=8, unfinished_bodies_per_address=4)
    with ExitStack() as stack:
        many = [stack.enter_context(begin(port, "192.0.2.1")) for _ in range(4)]
        few = [stack.enter_context(begin(port, f"192.0.2.{each}")) for each in range(10, 14)]
        page = httpx.post(f"http://127.0.0.1:{port}/login/", data={"a": "b"}, timeout=PATIENCE)
        assert page.status_code == 403  # no token of the form: it was read and judged
        # One of the address with the most had to go.
        assert answer(many[0]).startswith(b"HTTP/1.1 503 ")
        for other in (*many[1:], *few):
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.recv(1)


def test_a_burst_waits_for_its_turn(limits: Any, port: int) -> None:
    """Many calls at once from one address are all answered."""
    limits(unfinished_bodies_per_address=2)
    headers = {"Authorization": f"Bearer {token(user(superuser=True))}"}
    url = f"http://127.0.0.1:{port}/api/v2/domains/"

    def create(number: int) -> int:
        body = b'{"name": "d%d"}' % number
        return httpx.post(
            url,
            content=iter([body[:5], b" " * 70_000, body[5:]]),
            headers={**headers, "Content-Type": "application/json"},
            timeout=PATIENCE,
        ).status_code

    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(create, range(24))) == [400] * 24


def test_the_body_of_a_get_is_not_waited_for(limits: Any, port: int) -> None:
    limits(body_timeout=600, body_grace=600)
    head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    with begin(port, "192.0.2.1", head) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
