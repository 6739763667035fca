"""A full disk as each process of the server finds it: by itself, asked or not."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import psycopg
import pytest
from django.db import connection
from django.test import Client

from reprise.models import Heartbeat
from reprise.monitoring import disk
from sessions_app.instruments import registry
from tests.acceptance.running import Program
from tests.integration.test_operations import database_url, full_disk, program_run
from tests.observability import RULES
from tests.ports import free_port
from tests.waiting import until

__all__ = ["full_disk"]

pytestmark = pytest.mark.django_db(transaction=True)

CANNOT = "the database cannot write: could not extend file: No space left on device"
AGAIN = "the database can write again"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'reprise-disk'"


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
def programs(
    full_disk: "psycopg.Connection[Any]", metrics_port: int
) -> Iterator[dict[str, Program]]:
    """A process of each kind, whose disk is full; nobody asks them for anything."""
    environ = {
        "DATABASE_URL": database_url(),
        "BROKER_URL": "memory://",
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
        "REPRISE_METRICS_PORT": str(metrics_port),
        "REPRISE_WEB_WORKERS": "1",
    }
    celery = (sys.executable, "-m", "celery", "-A", "reprise")
    gunicorn = (sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py")
    commands = {
        "worker": (*celery, "worker", "--concurrency=1"),
        "beat": (*celery, "beat"),
        "web": (*gunicorn, "--bind", "127.0.0.1:0", "reprise.wsgi"),
        "front": (sys.executable, "manage.py", "front", "--port", "0"),
    }
    with ExitStack() as stack:
        started = {}
        for name, command in commands.items():
            started[name] = Program(command, **environ)
            stack.callback(started[name].kill)
        yield started


def worker_says(port: int) -> float | None:
    """Return what the metrics of a worker say of its last write."""
    with suppress(httpx.HTTPError):
        for line in httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines():
            if line.startswith("reprise_database_refuses_writes "):
                return float(line.split()[1])
    return None


def test_each_process_tells_a_full_disk_by_itself(
    full_disk: "psycopg.Connection[Any]", metrics_port: int, programs: dict[str, Program]
) -> None:
    for name, program in programs.items():
        until(lambda p=program: CANNOT in p.stderr, f"{name} tells it")  # type: ignore[misc]
    until(lambda: worker_says(metrics_port) == 1, "the worker's metrics tell it")
    full_disk.execute("ALTER TABLE reprise_heartbeat DISABLE TRIGGER full_disk")
    for name, program in programs.items():
        until(lambda p=program: AGAIN in p.stderr, f"{name} tells the end of it")  # type: ignore[misc]
        assert program.stderr.count(CANNOT) == program.stderr.count(AGAIN) == 1, name
    until(lambda: worker_says(metrics_port) == 0, "the worker's metrics tell the end of it")
    names = Heartbeat.objects.filter(part="disk").values_list("name", flat=True)
    assert sorted(name.partition("@")[0] for name in names) == ["beat", "web", "web", "worker"]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[disk.DiskWatch]:
    monkeypatch.setattr(disk, "PERIOD_SECONDS", 0.1)
    watch = disk.DiskWatch()
    yield watch
    watch.stop()


def backends() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(BACKENDS)
        return {pid for (pid,) in cursor.fetchall()}


def tried_at() -> Any:
    return Heartbeat.objects.filter(part="disk").values_list("seen_at", flat=True).first()


def tries_again() -> None:
    before = tried_at()
    until(lambda: tried_at() != before, "it tries again")


def test_one_connection_serves_all_tries(watch: disk.DiskWatch) -> None:
    watch.start("web")
    watch.start("web")
    until(tried_at, "it tries")
    found = backends()
    for _ in range(3):
        tries_again()
        assert backends() == found
    assert len(found) == 1
    watch.stop()
    until(lambda: backends() == set(), "its connection is closed")


def test_a_restart_of_the_database_is_no_doubt_about_its_disk(
    watch: disk.DiskWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str | None] = []
    note = watch._note

    def kept(refused: str | None) -> None:
        noted.append(refused)
        note(refused)

    monkeypatch.setattr(watch, "_note", kept)
    watch.start("web")
    until(lambda: noted, "it has tried")
    before = backends()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS found")
    until(lambda: backends() and not backends() & before, "it connects again")
    tries = len(noted)
    until(lambda: len(noted) > tries, "it has tried again")
    assert set(noted) == {""}


def test_an_outage_is_told_once_and_survived(
    watch: disk.DiskWatch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, disk.__name__)
    watch.start("web")
    until(lambda: watch.refused(time.monotonic()) == "", "it knows")
    refused: list[int] = []

    def refuse(*_: object) -> Any:
        refused.append(1)
        raise psycopg.OperationalError("no connection")

    with monkeypatch.context() as away:
        away.setattr(disk, "brief", refuse)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS found")
        until(lambda: len(refused) > 3, "it tries to connect")
        assert watch.refused(time.monotonic()) is None
    tries_again()
    until(lambda: watch.refused(time.monotonic()) == "", "it knows again")
    assert [record.message for record in caplog.records if record.name == disk.__name__] == [
        "cannot find out whether the database can write: no connection"
    ]


def test_a_read_only_database_is_told_as_one(watch: disk.DiskWatch) -> None:
    with disk.connect() as found:
        found.execute("SET default_transaction_read_only = on")
        assert "read-only transaction" in disk.write_refused(found, "test")


FORK = """
import os, select, time
import django
django.setup()
from reprise.monitoring import disk
from reprise.models import Heartbeat

def tried():
    return disk.watch._tried

def tries_again():
    before = tried()
    while tried() == before:
        time.sleep(0.02)

disk.PERIOD_SECONDS = 0.1
disk.watch.start("worker")
tries_again()
kept = disk.watch._connection
number, backend = kept.fileno(), kept.info.backend_pid
if (child := os.fork()) == 0:
    try:
        os.fstat(number)
    except OSError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0, "the child holds its parent's connection"
for _ in range(3):
    tries_again()
assert disk.watch._connection is kept and kept.info.backend_pid == backend
assert disk.watch.refused(time.monotonic()) == ""
disk.watch.stop()
"""


def test_a_forked_process_leaves_the_connection_to_its_parent() -> None:
    done = program_run(FORK)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_probe_that_tells_it_is_no_failed_call(
    client: Client,
    full_disk: "psycopg.Connection[Any]",
    watch: disk.DiskWatch,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The alarm of failed calls counts no probe, and the log has no error for one."""
    monkeypatch.setattr(disk, "watch", watch)
    caplog.set_level(logging.DEBUG)
    place = {"route": "readyz", "method": "GET", "status": "503"}
    counted = {"door": "operations", **place}
    before = registry.get_sample_value("reprise_http_requests_total", counted) or 0
    for _ in range(3):
        assert client.get("/readyz").status_code == 503
    assert registry.get_sample_value("reprise_http_requests_total", counted) == before + 3
    (alarm,) = (rule["expr"] for rule in RULES if rule["alert"] == "RepriseErrors")
    assert alarm.count("reprise_http_requests_total{") == alarm.count('door!="operations"') == 2
    errors = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors == [CANNOT]
