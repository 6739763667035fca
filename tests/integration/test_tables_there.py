"""Processes that start before `migrate` has ended: they wait, say so, and then work."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
import psycopg
import pytest

from reprise.postgresql.tables import missing_in
from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from sessions_app.db.initial_tables import UNRELEASED
from tests.integration.test_upgrade import environ, process
from tests.ports import free_port
from tests.prepared import ROOT, copy_database
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

LACKS = "the database lacks admin.0002_logentry_remove_auto_add and 1 more: run manage.py migrate"


@pytest.fixture
def url(prepared: Path, tmp_path: Path) -> Iterator[str]:
    """A database in which `migrate` has still to do two migrations, which change nothing twice."""
    server = EmbeddedPostgres(copy_database(prepared, tmp_path / "data"))
    with patch.dict(SETTINGS, fsync="off"):
        found = server.start()
    with psycopg.connect(found) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'admin' AND name > '0002'")
    yield found
    server.stop()


def manage(url: str, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environ(url), capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_a_server_and_beat_wait_for_tables(url: str, tmp_path: Path) -> None:
    front, beat = tmp_path / "front.log", tmp_path / "beat.log"
    port = free_port()
    with (
        process(front, url, "manage.py", "front", "--port", str(port)),
        process(beat, url, "-m", "celery", "-A", "reprise", "beat", "--pidfile=", "-l", "WARNING"),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        until(lambda: _answers(client), "the server answers")
        for _ in range(3):
            for method, path in (("POST", "sessions/"), ("POST", "executors/a/reports/")):
                answer = client.request(method, f"/api/v2/{path}", json={})
                assert (answer.status_code, answer.json()["detail"]) == (503, LACKS)
                assert answer.headers["Retry-After"]
            assert client.get("/login/").status_code == 503
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["database"] == {"state": "dead", "detail": LACKS}
        assert client.get("/healthz").status_code == 200
        until(lambda: LACKS in beat.read_text(), "beat waits")
        manage(url, "migrate")
        until(lambda: client.get("/readyz").json()["database"]["state"] == "alive", "it is ready")
        assert client.post("/api/v2/sessions/", json={}).status_code == 401
        until(lambda: client.get("/readyz").json()["beat"]["state"] == "alive", "beat begins")
    for log in (front, beat):
        assert log.read_text().count(LACKS) <= 2  # once a minute
        assert "Traceback" not in log.read_text()


OTHERS = """
    CREATE OR REPLACE FUNCTION reprise_initial_tables() RETURNS text LANGUAGE sql
    AS $$ SELECT 'others' $$
"""
OLDER = "DROP FUNCTION reprise_initial_tables()"


@pytest.mark.parametrize("change", [OTHERS, OLDER], ids=["others", "older"])
def test_tables_of_an_unreleased_version_are_refused(
    prepared: Path, tmp_path: Path, change: str
) -> None:
    data = copy_database(prepared, tmp_path / "data")
    server = EmbeddedPostgres(data)
    with patch.dict(SETTINGS, fsync="off"):
        url = server.start()
    try:
        with psycopg.connect(url) as connection:
            connection.execute(change)
            assert missing_in(connection) == UNRELEASED
        assert UNRELEASED in refused(url, "migrate")
    finally:
        server.stop()
    assert UNRELEASED in refused("", "standalone", "--data-dir", str(data), "--port", "0")


def refused(url: str, *command: str) -> str:
    """Run a command that refuses, and return what it says."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={name: value for name, value in environ(url).items() if value},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.HTTPError:
        return False
