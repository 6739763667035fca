"""An orderly stop ends with status 0, whatever else is the matter."""

import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.running import Program, Standalone, retry_waits, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = pytest.mark.slow

WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"


@contextmanager
def locked(server: Standalone, table: str) -> Iterator[psycopg.Connection]:
    """Somebody forgets a transaction that holds the whole table."""
    # It is ended with the database.
    with closing(psycopg.connect(server.database_url)) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield connection


def test_a_task_and_a_call_that_hang_do_not_hold_it(prepared: Path, tmp_path: Path) -> None:
    with Standalone(copy_database(prepared, tmp_path / "data")) as server:
        server.start()
        # Its retry is due soon: then a thread of the worker has something to do.
        session = submit(server.client, "exit 1", policy={"max_retries": 1, "retry_delay": 1})
        retry_waits(server.client, session)
        table = "sessions_app_session"
        with locked(server, table) as connection:
            until(lambda: len(connection.execute(WAITING, (table,)).fetchall()) > 1, "two wait")
            server.stop()  # with 0
            assert server.program.stdout.endswith("Reprise has stopped.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_front_ends_with_0(standalone: Standalone, number: signal.Signals) -> None:
    environ = {"DATABASE_URL": standalone.database_url, "REPRISE_LOG_LEVEL": "INFO"}
    front = Program((sys.executable, "manage.py", "front", "--port", "0"), **environ)
    until(lambda: "Uvicorn running" in front.stderr or not front.alive, "it serves")
    front.signal(number)
    assert front.reap() == 0, front.stderr
