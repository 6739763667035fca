"""A front keeps a large body only of a caller that it knows, and only so much. Real sockets."""

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
from django.conf import settings as given
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.urls import URLPattern, get_resolver

from reprise.front import uploads
from reprise.front.bodies import IN_MEMORY
from sessions_app.services.access import throttle
from tests.acceptance.running import ROOT
from tests.factories import executor, token, user
from tests.streaming import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024
SIMULATE = "/api/v2/retry-policies/simulate/"
BULK = "/api/v2/sessions/bulk/"


@pytest.fixture
def limits(settings: Any) -> Any:
    def change(**numbers: float) -> None:
        settings.REPRISE = {**settings.REPRISE, **numbers}

    return change


@pytest.fixture
def new_process() -> Iterator[None]:
    throttle._kept.clear()
    yield
    throttle._kept.clear()


@pytest.fixture
def ann() -> str:
    return token(user("ann", superuser=True))


def head(path: str, size: int, *lines: str) -> bytes:
    first = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*first, f"Content-Length: {size}", *lines, "", ""]).encode()


def post(port: int, path: str, body: Any, secret: str = "") -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    url = f"http://127.0.0.1:{port}{path}"
    return httpx.post(url, content=body, headers=headers, timeout=PATIENCE)


def begin(port: int, stack: ExitStack, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    stack.enter_context(connection)
    connection.sendall(sent)
    return connection


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // MIB):
        yield b" " * MIB


@pytest.mark.parametrize("secret", ["", "rpr_unknown"])
@pytest.mark.parametrize("announced", [True, False])
def test_a_stranger_is_refused_and_hears_it(port: int, secret: str, announced: bool) -> None:
    body = b" " * (20 * MIB) if announced else pieces(20 * MIB)
    answer = post(port, SIMULATE, body, secret)
    assert (answer.status_code, answer.json()["status"]) == (401, 401)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert ("unknown" if secret else "a token or a login") in answer.json()["detail"]


def test_a_stranger_who_asks_first_sends_nothing(port: int) -> None:
    with ExitStack() as stack:
        connection = begin(port, stack, head(SIMULATE, 60 * MIB, "Expect: 100-continue"))
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.usefixtures("new_process")
def test_strangers_are_refused_for_a_while(limits: Any, port: int) -> None:
    limits(anonymous_requests_per_minute=1)
    found = [post(port, SIMULATE, b" " * MIB) for _ in range(3)]
    assert [each.status_code for each in found] == [401, 429, 429]
    assert int(found[1].headers["retry-after"]) > 1
    wire = "/api/v2/executors/one/reports/"
    assert post(port, wire, b" " * MIB).status_code == 401, "a report is not held up"


def test_whoever_has_a_token_or_a_login_may_send(port: int, ann: str) -> None:
    assert post(port, SIMULATE, b"{".ljust(MIB), ann).status_code == 400
    agent = token(executor_name=executor("one").name)
    body = b'{"incarnation": 1, "reports": []}'
    assert post(port, "/api/v2/executors/one/reports/", body.ljust(MIB), agent).status_code == 200
    browser = Browser()
    browser.force_login(user("bob"))
    session = browser.cookies[given.SESSION_COOKIE_NAME].value
    cookie = f"Cookie: {given.SESSION_COOKIE_NAME}={session}"
    with ExitStack() as stack:
        connection = begin(port, stack, head("/login/", 100_000, cookie) + b"x" * 100_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")  # no token of the form


def test_a_small_body_needs_no_login(port: int) -> None:
    page = httpx.post(f"http://127.0.0.1:{port}/login/", content=b"x" * IN_MEMORY, timeout=PATIENCE)
    assert page.status_code == 403


def test_a_body_over_the_limit_is_refused_before_it_is_kept(port: int, ann: str) -> None:
    for path, limit in (("/api/v2/sessions/", MIB), (BULK, 16 * MIB), ("/graphql/", MIB)):
        for body in (b" " * (limit + 1), pieces(limit + MIB)):
            answer = post(port, path, body, ann)
            assert answer.status_code == 413
            assert answer.json()["detail"] == f"the body is over the limit of {limit} bytes"


def test_a_caller_holds_so_many_bytes(
    limits: Any, port: int, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has spent them waits, and then hears so; others go on."""
    monkeypatch.setattr(uploads, "ROOM_SECONDS", 1.0)
    limits(large_body_bytes_per_caller=30 * MIB, large_body_bytes=50 * MIB)
    bearer = f"Authorization: Bearer {ann}"
    bob = token(user("bob", superuser=True))
    with ExitStack() as stack:
        # Another token of the same user is no other caller.
        begin(port, stack, head(BULK, 15 * MIB, bearer) + b" ")
        second = f"Authorization: Bearer {token(User.objects.get(username='ann'))}"
        begin(port, stack, head(BULK, 15 * MIB, second) + b" ")
        time.sleep(0.5)
        refused = post(port, BULK, b" " * MIB, ann)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert f"{30 * MIB} of ann; try again" in refused.json()["detail"]
        assert post(port, BULK, b"{".ljust(16 * MIB), bob).status_code == 400
        # And all together.
        begin(port, stack, head(BULK, 16 * MIB, f"Authorization: Bearer {bob}") + b" ")
        time.sleep(0.5)
        cid = token(user("cid", superuser=True))
        refused = post(port, BULK, b" " * (5 * MIB), cid)
        assert refused.status_code == 503
        assert f"{50 * MIB} bytes are taken of all" in refused.json()["detail"]
        assert post(port, BULK, b"{".ljust(MIB), cid).status_code == 400
    # They have gone away, and there is room again.
    assert post(port, BULK, b"{".ljust(15 * MIB), ann).status_code == 400


def test_a_burst_of_large_bodies_waits_for_room(limits: Any, port: int, ann: str) -> None:
    limits(large_body_bytes_per_caller=4 * MIB)
    with ThreadPoolExecutor(12) as pool:
        found = pool.map(lambda _: post(port, BULK, b"{".ljust(2 * MIB), ann), range(12))
        assert {each.status_code for each in found} == {400}


def test_whoever_has_to_go_for_others_hears_so(limits: Any, port: int, ann: str) -> None:
    """Also if it is sending all the time, as fast as it can."""
    limits(unfinished_bodies_per_address=1)
    with ExitStack() as stack:
        bearer = f"Authorization: Bearer {ann}"
        first = begin(port, stack, head(SIMULATE, 60 * MIB, bearer))
        until_there = time.monotonic() + 1.5
        while time.monotonic() < until_there:
            first.sendall(b" " * 1024)
            time.sleep(0.01)
        begin(port, stack, head(SIMULATE, 60 * MIB, bearer))
        first.setblocking(False)
        received, patience = b"", time.monotonic() + PATIENCE
        while not received and time.monotonic() < patience:
            with suppress(BlockingIOError):
                first.send(b" " * 65_536)
            with suppress(BlockingIOError):
                received = first.recv(65_536)
        assert received.startswith(b"HTTP/1.1 503 ")


def test_a_body_that_never_fits_is_too_large(limits: Any, port: int, ann: str) -> None:
    limits(large_body_bytes=2 * MIB)
    answer = post(port, BULK, b" " * (3 * MIB), ann)
    assert answer.status_code == 413
    assert answer.json()["detail"] == f"this server takes bodies up to {2 * MIB} bytes"


def test_the_manual_has_the_limits_of_the_calls() -> None:
    """The views say how long a body may be, and a front asks them."""
    text = (ROOT / "docs" / "production.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (\d+) MiB \|$", text, re.MULTILINE)
    documented = {
        name: int(size) * MIB for names, size in rows for name in re.findall("`(.+?)`", names)
    }
    assert rows[-1] == ("everything else", "1")
    found = {}
    for route, view in _views(get_resolver().url_patterns):
        limit = getattr(view, "body_limit", None) or given.BODY_LIMIT_BYTES
        if limit != given.BODY_LIMIT_BYTES:
            name = re.sub(r"^executors/<\w+:\w+>/", "", route.removeprefix("api/v2/")).strip("/")
            found[name.replace("sessions/bulk-", "bulk-")] = limit
    assert found == documented
    assert found["bulk-give-up"] == 16 * MIB


def _views(patterns: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for each in patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLPattern):
            yield route, getattr(each.callback, "cls", None)
        else:
            yield from _views(each.url_patterns, route)
