"""A client that reads or sends slowly, or goes away, costs the others nothing. Real sockets."""

import json
import socket
import time
from collections import Counter
from contextlib import ExitStack
from uuid import UUID, uuid4

import httpx
import pytest
from django.utils import timezone

from interfaces.simulate.run import SIMULATIONS
from sessions_app.models import LogChunk, Project, Session, SessionEvent
from tests.factories import project, submit, token, user
from tests.streaming import PATIENCE, EventReader

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 20
"""More than there are threads for ordinary calls."""
BURST, BURSTS = 300, 5
PIECE = 256 * 1024
PIECES = 40
"""More than what the sockets of this machine take in."""


@pytest.fixture
def bearer() -> str:
    return f"Bearer {token(user(superuser=True))}"


@pytest.fixture
def logged() -> Session:
    """A session with a long log of lines that say where they are."""
    session = submit(project())
    whole = log()
    LogChunk.objects.bulk_create(
        [
            LogChunk(session_id=session.pk, offset=at, data=whole[at : at + PIECE])
            for at in range(0, len(whole), PIECE)
        ]
    )
    return session


def log() -> bytes:
    return b"".join(b"%015d\n" % number for number in range(PIECE * PIECES // 16))


def ask(port: int, request: str) -> socket.socket:
    """A connection on which a request was sent and nothing is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(request.replace("\n", "\r\n").encode())
    return connection


def assert_answers(port: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("query", ["", "?follow=true"])
def test_readers_of_logs_that_do_not_read(
    port: int, bearer: str, logged: Session, query: str
) -> None:
    request = (
        f"GET /api/v2/sessions/{logged.pk}/logs/{query} HTTP/1.1\n"
        f"Host: localhost\nAuthorization: {bearer}\n\n"
    )
    with ExitStack() as open_connections:
        for _ in range(MANY):
            open_connections.enter_context(ask(port, request))
        time.sleep(1)
        assert_answers(port)
    assert_answers(port)


def test_readers_of_events_that_do_not_read(port: int, bearer: str) -> None:
    """They cost the others nothing, and what waits for them is bounded; one that reads has all."""
    work, session = project("work", domain="acme"), uuid4()
    write_events(work, session, 0)
    path = "/api/v2/job-sets/sweep/events/?project=acme/work"
    request = (
        f"GET {path} HTTP/1.1\nHost: localhost\nAccept: text/event-stream\n"
        f"Authorization: {bearer}\n\n"
    )
    reader = EventReader(f"http://127.0.0.1:{port}{path}", bearer.removeprefix("Bearer "))
    with ExitStack() as open_connections:
        for _ in range(MANY):
            open_connections.enter_context(ask(port, request))
        reader.wait(lambda r: len(r.events) == BURST)
        for burst in range(1, BURSTS):
            write_events(work, session, burst)
        reader.wait(lambda r: len(r.events) == BURST * BURSTS)
        assert [event.data["seq"] for event in reader.events] == list(range(BURST * BURSTS))
        assert_answers(port)
    reader.leave()
    assert_answers(port)


def write_events(work: Project, session: UUID, burst: int) -> None:
    """Some megabytes of events, in one transaction."""
    SessionEvent.objects.bulk_create(
        SessionEvent(
            session_id=session,
            root_id=session,
            project=work,
            job_set="sweep",
            attempt=0,
            seq=burst * BURST + number,
            type="session.running",
            time=timezone.now(),
            data={"text": "x" * 8000},
        )
        for number in range(BURST)
    )


def test_readers_of_simulations_that_do_not_read(port: int, bearer: str) -> None:
    """Simulations leave threads for others: those beyond a number are told to come again."""
    body = json.dumps(
        {
            "retry_policy": {"max_retries": 30},
            "chains": [{"terminations": [{"exit_code": 1}] * 30}] * 100,
        }
    )
    request = (
        "POST /api/v2/retry-policies/simulate/ HTTP/1.1\nHost: localhost\n"
        f"Content-Type: application/json\nContent-Length: {len(body)}\n"
        f"Authorization: {bearer}\n\n{body}"
    )
    answers: Counter[bytes] = Counter()
    with ExitStack() as open_connections:
        asked = [open_connections.enter_context(ask(port, request)) for _ in range(MANY)]
        for connection in asked:
            connection.settimeout(PATIENCE)
            answers[connection.recv(12)] += 1
        assert_answers(port)
    assert answers == {b"HTTP/1.1 200": SIMULATIONS, b"HTTP/1.1 503": MANY - SIMULATIONS}
    assert_answers(port)
    # Whoever went away has made room again.
    headers = {"Authorization": bearer, "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/api/v2/retry-policies/simulate/"
    until = time.monotonic() + 60
    with httpx.Client(headers=headers, timeout=PATIENCE) as client:
        while (answer := client.post(url, content=body)).status_code == 503:
            assert time.monotonic() < until
    summary = answer.json()["summary"]
    assert (summary["chains"], summary["retries"]) == (100, 3000)


def test_senders_of_bodies_that_do_not_send(port: int, bearer: str) -> None:
    request = (
        "POST /api/v2/sessions/ HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"
        f"Content-Length: 100\nAuthorization: {bearer}\n\n" + "{"
    )
    with ExitStack() as open_connections:
        for _ in range(MANY):
            open_connections.enter_context(ask(port, request))
        time.sleep(0.5)
        assert_answers(port)


def test_a_sender_that_goes_away_halfway_has_asked_for_nothing(port: int, bearer: str) -> None:
    session = submit(project())
    request = (
        f"POST /api/v2/sessions/{session.pk}/cancel/ HTTP/1.1\nHost: localhost\n"
        f"Content-Type: application/json\nContent-Length: 100\nAuthorization: {bearer}\n\n"
    )
    ask(port, request).close()
    time.sleep(0.5)
    assert_answers(port)
    session.refresh_from_db()
    assert session.status == "PENDING"


@pytest.mark.parametrize("query", ["", "?offset=300000", "?tail=70000"])
def test_a_log_comes_whole(port: int, bearer: str, logged: Session, query: str) -> None:
    answer = httpx.get(
        f"http://127.0.0.1:{port}/api/v2/sessions/{logged.pk}/logs/{query}",
        headers={"Authorization": bearer},
        timeout=PATIENCE,
    )
    whole = log()
    start = {"": 0, "?offset=300000": 300_000, "?tail=70000": len(whole) - 70_000 * 16}[query]
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-reprise-log-offset"] == str(start)
    assert answer.content == whole[start:]


def test_a_hidden_log_is_refused(port: int, logged: Session) -> None:
    url = f"http://127.0.0.1:{port}/api/v2/sessions/{logged.pk}/logs/"
    stranger = f"Bearer {token(user(project=project()))}"
    assert httpx.get(url, timeout=PATIENCE).json()["status"] == 401
    answer = httpx.get(url, headers={"Authorization": stranger}, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
