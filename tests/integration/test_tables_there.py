"""Processes that start before `migrate` has ended: they wait, say so, and then work."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest

from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from tests.integration.test_upgrade import environ, process
from tests.ports import free_port
from tests.prepared import ROOT, copy_database
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

LACKS = "the database lacks reprise.0003_standby and 2 more: run manage.py migrate"


@pytest.fixture
def url(prepared: Path, tmp_path: Path) -> Iterator[str]:
    """A database in which `migrate` has still to do the last three migrations of `reprise`."""
    server = EmbeddedPostgres(copy_database(prepared, tmp_path / "data"))
    with patch.dict(SETTINGS, fsync="off"):
        found = server.start()
    manage(found, "migrate", "reprise", "0002")
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


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.HTTPError:
        return False
