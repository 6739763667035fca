"""An upgrade under load: servers of the version before go on while tables change under them.

Their connections are pooled and have prepared plans for the old tables. No call fails.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
import psycopg
import pytest

from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from tests.ports import free_port
from tests.prepared import ROOT, copy_database
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.timeout(900)

WARM = 200
"""Calls after which the statements of each connection are prepared."""
CALLERS = 4
SET_UP = """
import django
django.setup()
from tests import factories
place = factories.project("work")
factories.executor("rack-1", projects=(place,))
print(factories.token(factories.user(project=place)))
print(factories.token(executor_name="rack-1"))
"""
WIDER = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("sessions_app", "{after}")]
    operations = [migrations.RunSQL(sql) for sql in {statements}]
"""
CHANGES = [
    [
        "ALTER TABLE sessions_app_session ALTER COLUMN name TYPE varchar(900)",
        "ALTER TABLE sessions_app_session ALTER COLUMN node TYPE varchar(900)",
        "ALTER TABLE sessions_app_sessionspec ALTER COLUMN image TYPE varchar(900)",
        "ALTER TABLE scheduler_lease ALTER COLUMN template TYPE varchar(900)",
    ],
]
SLOW_CHANGES = [
    # Honest work takes longer than the patience with a lock.
    ["SELECT pg_sleep(6)"],
    ["ALTER TABLE scheduler_lease ALTER COLUMN template TYPE varchar(900)"],
]
MIGRATES = """
from django.conf import settings
from django.core.management import execute_from_command_line
from reprise.postgresql import schema
settings.MIGRATION_MODULES = {"sessions_app": "newer"}
schema.PATIENCE_SECONDS = %f
execute_from_command_line(["manage.py", "migrate", "--noinput"])
"""


class Callers:
    """Users who submit, look, list and cancel all the time, until they are stopped."""

    def __init__(self, url: str, token: str):
        self.statuses: Counter[int] = Counter()
        self._stopped = threading.Event()
        self._client = httpx.Client(
            base_url=f"{url}/api/v2/", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        self._threads = [threading.Thread(target=self._run) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    @property
    def calls(self) -> int:
        """Return how many calls were answered."""
        return sum(self.statuses.values())

    def stop(self) -> None:
        """Let each end its call."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._client.close()

    def _run(self) -> None:
        place = {"project": "acme/work"}
        while not self._stopped.is_set():
            made = self._call("POST", "sessions/", json={"command": ["true"], **place})
            if made.status_code == 201:
                session = made.json()["id"]
                self._call("GET", f"sessions/{session}/")
                self._call("POST", f"sessions/{session}/cancel/")
            self._call("GET", "sessions/", params=place)

    def _call(self, method: str, path: str, **options: object) -> httpx.Response:
        answer = self._client.request(method, path, **options)  # type: ignore[arg-type]
        self.statuses[answer.status_code] += 1
        return answer


@pytest.fixture
def url(prepared: Path, tmp_path: Path) -> Iterator[str]:
    server = EmbeddedPostgres(copy_database(prepared, tmp_path / "data"))
    with patch.dict(SETTINGS, fsync="off"):
        yield server.start()
    server.stop()


def environ(url: str, **more: str) -> dict[str, str]:
    settings = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "reprise.settings"}
    return {**os.environ, **settings, **more}


@contextmanager
def process(log: Path, url: str, *command: str, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environ(url, **more),
            stdout=output,
            stderr=output,
        )
        try:
            yield started
        finally:
            started.terminate()
            started.wait(PATIENCE_SECONDS)


def newer(directory: Path, changes: list[list[str]]) -> str:
    """Write the migrations of the next version. Return where Python finds them."""
    package = directory / "newer"
    shutil.copytree(ROOT / "sessions_app" / "migrations", package)
    after = max(each.stem for each in package.glob("0*.py"))
    for statements in changes:
        name = f"{int(after[:4]) + 1:04}_newer"
        (package / f"{name}.py").write_text(WIDER.format(after=after, statements=statements))
        after = name
    return os.pathsep.join([str(directory), str(ROOT)])


def statuses(log: Path) -> Counter[int]:
    """Return how many calls a server answered with each status, those of executors too."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return Counter(line["status"] for line in lines if "status" in line)


def test_servers_of_the_version_before_answer_every_call(url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SET_UP],
        cwd=ROOT,
        env=environ(url),
        capture_output=True,
        text=True,
        check=True,
    )
    user, agent = done.stdout.split()
    (tmp_path / "agent.token").write_text(agent)
    port = free_port()
    server = f"http://127.0.0.1:{port}"
    front = ("manage.py", "front", "--port", str(port))
    settings = {
        "REPRISE_LOG_LEVEL": "INFO",
        "REPRISE_LOG_FORMAT": "json",
        "REPRISE_DATABASE_POOL": "6",
        "REPRISE_ALLOWED_HOSTS": "127.0.0.1",
    }
    executor = (
        *("-m", "executor", "--name", "rack-1", "--url", server, "--driver", "simulated"),
        *("--token-file", str(tmp_path / "agent.token"), "--state-dir", str(tmp_path / "state")),
    )
    log = tmp_path / "front.log"
    with (
        process(log, url, *front, **settings),
        process(tmp_path / "agent.log", url, *executor),
    ):
        until(lambda: _answers(server), "the server answers")
        callers = Callers(server, user)
        try:
            until(lambda: callers.calls > WARM, "statements are prepared")
            upgrade = _migrate(url, newer(tmp_path, CHANGES))
            output, _ = upgrade.communicate(timeout=2 * PATIENCE_SECONDS)
            assert upgrade.returncode == 0, output
            after = callers.calls
            until(lambda: callers.calls > after + WARM, "calls after the upgrade")
        finally:
            callers.stop()
    # 409: a session that ended before it was cancelled.
    assert callers.statuses.keys() <= {200, 201, 202, 409}
    found = statuses(log)
    assert found.total() >= callers.calls
    assert {status: count for status, count in found.items() if status >= 500} == {}


def _answers(server: str) -> bool:
    try:
        return httpx.get(f"{server}/readyz?exclude=worker,beat,broker", timeout=5).is_success
    except httpx.HTTPError:
        return False


def test_patience_is_with_one_lock(url: str, tmp_path: Path) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as other, other.transaction():
        other.execute("LOCK TABLE scheduler_lease IN ACCESS SHARE MODE")
        upgrade = _migrate(url, newer(tmp_path, SLOW_CHANGES), patience=5)
        told = _told(upgrade, "waiting: canceling statement due to lock timeout")
    output, _ = upgrade.communicate(timeout=PATIENCE_SECONDS)
    assert upgrade.returncode == 0, told + output


def _migrate(url: str, path: str, patience: float = PATIENCE_SECONDS) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATES % patience],
        cwd=ROOT,
        env=environ(url, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _told(upgrade: "subprocess.Popen[str]", wanted: str) -> str:
    """Return what an upgrade printed up to a line."""
    assert upgrade.stdout is not None
    told = ""
    for line in upgrade.stdout:
        told += line
        if wanted in line:
            return told
    raise AssertionError(told)
