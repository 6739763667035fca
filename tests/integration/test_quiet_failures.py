"""Tests that a failure by nobody's mistake is a line in the log, without a traceback."""

import logging
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django_celery_beat.models import PeriodicTask

from reprise.beat.scheduler import LockedScheduler
from reprise.celery import app
from reprise.worker.metrics_port import serve

RESET = struct.pack("ii", 1, 0)
"""A close that is a reset at once."""


@pytest.fixture
def beat() -> Iterator[LockedScheduler]:
    beat = LockedScheduler(app=app)
    yield beat
    beat.close()


def test_a_scraper_that_hangs_up_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reprise.worker.metrics_port")
    server = serve(0, "")
    try:
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as scraper:
            scraper.sendall(b"GET /metr")
            scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        deadline = time.monotonic() + 60
        while not caplog.records:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        server.shutdown()
        server.server_close()
    (line,) = caplog.records
    assert line.getMessage().startswith("a scrape failed: ConnectionResetError")
    assert line.exc_info is None


@pytest.mark.django_db(transaction=True)
def test_beat_that_cannot_write_says_so_in_a_line_and_tries_again(
    beat: LockedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    beat._begin()
    name, entry = next(iter(beat.schedule.items()))
    PeriodicTask.objects.filter(name=name).update(total_run_count=0)
    entry.model.total_run_count = 7
    beat._dirty.add(name)
    _rename("django_celery_beat_periodictask", "away")
    try:
        beat.sync()
    finally:
        _rename("away", "django_celery_beat_periodictask")
    (line,) = caplog.records
    assert line.getMessage().startswith("beat: cannot store the last run times: ")
    assert "\n" not in line.getMessage()
    assert line.exc_info is None
    beat.sync()
    assert PeriodicTask.objects.get(name=name).total_run_count == 7


def _rename(table: str, to: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")
