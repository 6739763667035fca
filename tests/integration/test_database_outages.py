"""PostgreSQL away for a while, or held by a lock: who waits how long, and what they are told."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import httpx
import psycopg
import pytest
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import OperationalError, connection, transaction
from django.test import Client
from psycopg_pool import PoolTimeout

from reprise.http.call_limits import limited
from reprise.postgresql.direct import parameters
from reprise.postgresql.pool import LONGEST_PAUSE, Attempt, PromptPool
from reprise.standalone.web import Web, listen
from scheduler.models import Executor
from sessions_app.wakeups import WORK_CHANNEL
from tests.factories import executor, project, token, user
from tests.integration.test_operations import beats, database_url
from tests.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.django_db(transaction=True)

AWAY_SECONDS = 15.9
"""psycopg's own pool tries again at its 1st, 3rd, 7th, 15th and 31st second."""
BACK_SECONDS = 12.0
LOCKED_SECONDS = 20.0
"""After which a call that waits for a lock is told so: whoever waits, too, takes as long."""
CALLS = 24
"""More than there are threads for ordinary calls."""


class Road:
    """A TCP port that leads to the database of the tests, and may be closed."""

    def __init__(self) -> None:
        self.port = 0
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """End all connections and refuse new ones."""
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        while self._ends:
            with suppress(OSError), closing(self._ends.pop()) as end:
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, there = listener.accept()[0], _to_database()
                self._ends += (here, there)
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=_carry, args=pair, daemon=True).start()


def _to_database() -> socket.socket:
    host, port = connection.settings_dict["HOST"], connection.settings_dict["PORT"] or 5432
    if not host.startswith("/"):
        return socket.create_connection((host or "127.0.0.1", int(port)))
    found = socket.socket(socket.AF_UNIX)
    found.connect(f"{host}/.s.PGSQL.{port}")
    return found


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def road() -> Iterator[Road]:
    road = Road()
    yield road
    road.close()


@pytest.fixture(params=[1])
def pool(road: Road, request: pytest.FixtureRequest) -> Iterator[PromptPool]:
    given = {**parameters(), "host": "127.0.0.1", "port": road.port, "autocommit": True}
    check = PromptPool.check_connection
    with PromptPool(
        kwargs=given, min_size=request.param, timeout=30, check=check, open=False
    ) as pool:
        pool.wait()
        yield pool


def first_answer(pool: PromptPool) -> float:
    began = time.monotonic()
    with pool.connection() as found:
        assert found.execute("SELECT 1").fetchone() == (1,)
    return time.monotonic() - began


def test_the_pauses_between_tries_stay_short() -> None:
    attempt, now, pauses = Attempt(timeout=300), 0.0, []
    while not attempt.time_to_give_up(now):
        attempt.update_delay(now)
        now += attempt.delay
        pauses.append(attempt.delay)
    assert max(pauses) == LONGEST_PAUSE
    assert now == pytest.approx(300)


def test_a_pool_answers_soon_after_the_database_is_back(pool: PromptPool, road: Road) -> None:
    road.close()
    with pytest.raises(PoolTimeout):
        pool.getconn(timeout=AWAY_SECONDS)
    road.open()
    assert first_answer(pool) < BACK_SECONDS


@pytest.mark.parametrize("pool", [6], indirect=True)
def test_connections_that_broke_while_nobody_used_them(pool: PromptPool, road: Road) -> None:
    road.close()
    road.open()
    assert first_answer(pool) < BACK_SECONDS


@pytest.mark.parametrize("pool", [3], indirect=True)
def test_a_pool_hands_out_the_connection_that_was_used_last(pool: PromptPool) -> None:
    """It has the statements prepared; the others come only when several are needed at once."""
    with pool.connection(), pool.connection() as second:
        pass
    with pool.connection() as first:
        pass
    used = []
    for _ in range(4):
        with pool.connection() as found:
            used.append(found)
    assert set(used) == {first}
    assert first is not second


def test_every_process_has_this_pool() -> None:
    assert isinstance(connection.pool, PromptPool)  # type: ignore[attr-defined]


# --- locks


@pytest.fixture
def locked() -> Iterator[psycopg.Connection[Any]]:
    """A connection that holds the sessions, and whose end lets go of them."""
    with closing(psycopg.connect(**parameters())) as other:
        other.execute("LOCK TABLE sessions_app_session")
        yield other


@pytest.fixture
def bearer() -> dict[str, str]:
    project("ml")
    return {"Authorization": f"Bearer {token(user(superuser=True))}"}


@pytest.fixture
def front() -> Iterator[str]:
    with listen("127.0.0.1", 0) as listener:
        web = Web(get_wsgi_application(), listener)
        web.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        web.stop()


@pytest.fixture
def gunicorn() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py"]
    environ = {**os.environ, "DATABASE_URL": database_url(), "REPRISE_WEB_WORKERS": "1"}
    environ["DJANGO_SETTINGS_MODULE"] = "reprise.settings"
    limits = {"REPRISE_CALL_LOCK_TIMEOUT": str(LOCKED_SECONDS)}
    command += ["--bind", f"127.0.0.1:{port}", "reprise.wsgi"]
    process = subprocess.Popen(command, env={**environ, **limits})
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    return False


@pytest.mark.parametrize("server", ["front", "gunicorn"])
def test_readiness_is_told_while_all_calls_wait_for_a_lock(
    server: str,
    request: pytest.FixtureRequest,
    bearer: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(settings.REPRISE, "call_lock_timeout", LOCKED_SECONDS)
    url = request.getfixturevalue(server)
    beats("worker", 1)
    beats("beat", 1)
    other: psycopg.Connection[Any] = request.getfixturevalue("locked")
    with httpx.Client(timeout=PATIENCE_SECONDS) as client, ThreadPoolExecutor(CALLS) as threads:
        sessions = f"{url}/api/v2/sessions/"
        calls = [threads.submit(client.get, sessions, headers=bearer) for _ in range(CALLS)]
        try:
            until(lambda: _waiting() >= 8, "all threads wait")
            until(lambda: _is_ready(client, url), "it is ready all the same")
            assert not all(call.done() for call in calls)
        finally:
            other.close()


def _is_ready(client: httpx.Client, url: str) -> bool:
    began = time.monotonic()
    answer = client.get(f"{url}/readyz?exclude=broker")
    assert time.monotonic() - began < LOCKED_SECONDS
    return answer.status_code == 200


def _waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        found: int = cursor.fetchone()[0]
    return found


def test_a_held_call_is_told_that_the_database_does_not_serve_it(
    front: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.REPRISE, "call_lock_timeout", 0.3)
    executor("one")
    headers = {"Authorization": f"Bearer {token(executor_name='one')}"}
    body = {"incarnation": 1, "wait_s": 10, "limits": {"max_sessions": 1}}
    url = f"{front}/api/v2/executors/one/lease/"
    with ThreadPoolExecutor(1) as threads, closing(psycopg.connect(**parameters())) as other:
        call = threads.submit(httpx.post, url, json=body, headers=headers, timeout=PATIENCE_SECONDS)
        until(lambda: Executor.objects.filter(last_seen_at__isnull=False).exists(), "it is held")
        other.execute("LOCK TABLE scheduler_executor")
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {WORK_CHANNEL}")
        answer = call.result()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "another change holds" in answer.json()["detail"]


def test_a_call_that_waits_for_a_lock_is_told_so(
    client: Client,
    bearer: dict[str, str],
    locked: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(settings.REPRISE, "call_lock_timeout", 0.3)
    connection.close()
    answer = client.get("/api/v2/sessions/", headers=bearer)
    assert answer.status_code == 503
    assert answer["Retry-After"] == "2"
    assert "another change holds what this call needs" in answer.json()["detail"]
    client.raise_request_exception = False
    client.force_login(user(superuser=True))
    page = client.get("/")
    assert (page.status_code, page["Retry-After"]) == (503, "2")


def test_only_calls_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.REPRISE, "call_statement_timeout", 0.2)
    connection.close()
    with limited(), connection.cursor() as cursor, pytest.raises(OperationalError, match="timeout"):
        cursor.execute("SELECT pg_sleep(30)")
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.4)")
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_connection_that_was_closed_in_a_transaction_serves_the_next_call() -> None:
    """The pool ends the transaction, but leaves the connection without autocommit."""
    connection.close()
    connection.connect_anew()  # type: ignore[attr-defined]  # of our wrapper
    with transaction.atomic():
        assert connection.connection is not None
        returned = connection.connection
        assert not returned.autocommit
    returned.autocommit = False
    connection.close()

    def serves_again() -> bool:
        with limited(), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() != ("0",)
            served_by = connection.connection
        connection.close()
        return served_by is returned

    # The pool may have others, which it lends in turn.
    until(serves_again, "the pool lends it again")
