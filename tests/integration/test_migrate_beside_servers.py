"""`manage.py migrate` from the tables of the first release, while its servers work on them."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from django.db import connection

from reprise.postgresql.direct import parameters
from sessions_app.locks import AdvisoryLock
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

FIRST_RELEASE = [
    ("sessions_app", "0013_start_failure"),
    ("scheduler", "0010_start_verification"),
    ("reprise", "0001_operations"),
]
SET_UP = f"""
import django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
MigrationExecutor(connection).migrate({FIRST_RELEASE})
"""
ROWS = """
    INSERT INTO sessions_app_domain (name, created_at) VALUES ('acme', now());
    INSERT INTO sessions_app_project (domain_id, name, created_at)
        SELECT id, 'ml', now() FROM sessions_app_domain;
    INSERT INTO sessions_app_auditentry
            (time, actor, action, object_type, object_id, project, data)
        SELECT now(), 'ada', 'queue.change', 'queue', 'x', '', '{}' FROM generate_series(1, 2)
"""
SUBMITS = "SELECT id FROM sessions_app_project WHERE name = 'ml' FOR KEY SHARE"
TELLS = """
    INSERT INTO sessions_app_sessionevent
        (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    SELECT %s, %s, id, '', 0, 0, 'session.submitted', now(), '{}' FROM sessions_app_project
"""
HOLDS_EVENTS = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock'
        AND relation = 'sessions_app_sessionevent'::regclass)
"""
INVALID = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"


@pytest.fixture
def url() -> Iterator[str]:
    """A database of the first release's tables."""
    name = f"reprise_old_{uuid4().hex[:12]}"
    with closing(psycopg.connect(**parameters(), autocommit=True)) as other:
        other.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            url = psycopg.conninfo.make_conninfo(**{**_address(), "dbname": name})
            python(url, "-c", SET_UP)
            with closing(connected(url)) as old:
                old.execute(ROWS)
            yield url
        finally:
            other.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _address() -> dict[str, Any]:
    wanted = ("host", "port", "user", "password", "passfile")
    return {name: value for name, value in parameters().items() if name in wanted}


def connected(url: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(url, autocommit=True)


def environ(url: str) -> dict[str, str]:
    parameters = psycopg.conninfo.conninfo_to_dict(url)
    account = f"{parameters.get('user', '')}:{parameters.get('password') or ''}".rstrip(":")
    host = str(parameters.get("host", "")).replace("/", "%2F")
    file = quote(str(parameters.get("passfile") or ""), safe="")
    query = f"?passfile={file}" if file else ""
    port, name = parameters.get("port") or 5432, parameters["dbname"]
    address = f"postgres://{account}@{host}:{port}/{name}{query}"
    return {**os.environ, "DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "reprise.settings"}


def python(url: str, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environ(url), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class OldServer:
    """Writes as the first release did, until it is stopped; keeps what went wrong."""

    def __init__(self, url: str, between: Callable[["psycopg.Connection[Any]"], None]):
        self._url = url
        self._between = between
        self._stopped = threading.Event()
        self.errors: list[str] = []
        self.written = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with closing(connected(self._url)) as connection:
            while not self._stopped.wait(0.05):
                try:
                    with connection.transaction():
                        connection.execute(SUBMITS)
                        self._between(connection)
                        session = uuid4()
                        connection.execute(TELLS, [session, session])
                    self.written += 1
                except psycopg.Error as error:
                    self.errors.append(str(error))


class Collision:
    """Lets servers hold their project for a while, and long enough once `migrate` has the events.

    Between two writes a server holds nothing, so it takes several for one to hold at any time.
    """

    def __init__(self) -> None:
        self.began, self.over = threading.Event(), threading.Event()

    def __call__(self, connection: "psycopg.Connection[Any]") -> None:
        self.began.set()
        ends = time.monotonic() + 0.5
        while not self.over.is_set() and time.monotonic() < ends:
            if connection.execute(HOLDS_EVENTS).fetchone() == (True,):
                self.over.set()
            time.sleep(0.01)


def test_servers_go_on_while_the_tables_change(url: str) -> None:
    with closing(connected(url)) as other, pytest.raises(psycopg.errors.UniqueViolation):
        # As a try that was ended leaves it.
        other.execute(
            "CREATE UNIQUE INDEX CONCURRENTLY audit_newest ON sessions_app_auditentry ((true))"
        )
    collision = Collision()
    servers = [
        *(OldServer(url, collision) for _ in range(3)),
        OldServer(url, lambda _: time.sleep(0.01)),
        OldServer(url, lambda _: time.sleep(0.01)),
    ]
    until(collision.began.is_set, "the servers work")
    with closing(connected(url)) as other:
        assert other.execute(INVALID).fetchone() == (1,)
        output = python(url, "manage.py", "migrate", "--noinput")
        for server in servers:
            server.stop()
        assert collision.over.is_set()
        assert [server.errors for server in servers if server.errors] == []
        assert all(server.written > 5 for server in servers)
        assert other.execute(INVALID).fetchone() == (0,)
    assert "waiting: canceling statement due to lock timeout" in output
    python(url, "manage.py", "migrate", "--check")


def test_a_second_migrate_waits_for_the_first_one() -> None:
    """It is not an old transaction meanwhile, for which an index of the first one would wait."""
    key = AdvisoryLock.MIGRATE.value
    parameters = connection.settings_dict
    url = psycopg.conninfo.make_conninfo(**{**_address(), "dbname": parameters["NAME"]})
    with closing(connected(url)) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [key])
        command = [sys.executable, "manage.py", "migrate", "--noinput"]
        second = subprocess.Popen(command, env=environ(url), stdout=subprocess.DEVNULL)
        asks = "SELECT state FROM pg_stat_activity WHERE application_name = 'reprise-migrate'"
        until(lambda: other.execute(asks).fetchone() == ("idle",), "it asks")
        assert second.poll() is None
        other.execute("SELECT pg_advisory_unlock(%s)", [key])
        assert second.wait(120) == 0
