"""The stages of an attempt, one after the other, and what each costs a session in it.

The server's REST interface is called in this process, by a played executor, on an embedded
PostgreSQL: submit, lease, accept, fail (report, settle, decide), dispatch, and so on until the
third attempt succeeds. Each call has 200 sessions. So all counts are the same each time; only CPU
time is not. Wake-ups are not sent, and autovacuum does not run.

With `--load`, that many sessions then go through a whole system, as in `budget.py`, while
PostgreSQL logs their statements.

    python -m benchmarks.stages [--load SESSIONS] [--database URL]
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any, LiteralString
from unittest.mock import create_autospec, patch
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg

from benchmarks import load
from benchmarks.database import benchmark_database
from benchmarks.idle import is_work, statements
from benchmarks.wal import Written, position, written

SESSIONS = 200
ROUNDS = 3
DUE_SECONDS = 0.01
"""Until the last retry is due."""


@dataclass
class Stage:
    """The costs of the calls of one stage."""

    sessions: int = 0
    server: float = 0.0
    """CPU seconds of this process: the server's work, and playing the executor."""
    postgres: float = 0.0
    """CPU seconds of the connection's backend."""
    statements: list[int] = field(default_factory=list)
    """Their number in each call."""
    written: list[Written] = field(default_factory=list)

    def costs(self) -> dict[str, float]:
        """Return the costs of a session in this stage."""
        tables = [table for each in self.written for table in each.tables.values()]
        totals = {
            "cpu_server_us": 1e6 * self.server,
            "cpu_postgresql_us": 1e6 * self.postgres,
            "statements": sum(self.statements),
            "commits": sum(each.commits for each in self.written),
            "wal_bytes": sum(each.size for each in self.written),
            "inserted": sum(each.inserted for each in tables),
            "updated": sum(each.updated for each in tables),
            "hot": sum(each.hot for each in tables),
            "deleted": sum(each.deleted for each in tables),
            "entries": sum(each.entries for each in tables),
        }
        costs = {name: round(total / self.sessions, 4) for name, total in totals.items()}
        # What comes now and then, such as the note that a token was used, is in few calls.
        costs["statements_a_call"] = median_low(self.statements)
        costs["commits_a_call"] = median_low(each.commits for each in self.written)
        return costs


class Meter:
    """Measures blocks of code that use Django's connection."""

    def __init__(self, url: str) -> None:
        self.stages: dict[str, Stage] = {}
        self._watch = psycopg.connect(url, autocommit=True, prepare_threshold=None)

    @contextmanager
    def stage(self, name: str, sessions: int) -> Iterator[None]:
        """Add what the block costs to a stage that so many sessions go through."""
        from django.db import connection

        stage = self.stages.setdefault(name, Stage())
        statements: list[str] = []

        def note(execute: Any, sql: Any, *rest: Any) -> Any:
            statements.append(str(sql))
            return execute(sql, *rest)

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        start = position(self._watch)
        postgres, server = _nanoseconds(pid), time.process_time()
        with connection.execute_wrapper(note), _copies_noted(statements):
            yield
        stage.server += time.process_time() - server
        stage.postgres += (_nanoseconds(pid) - postgres) / 1e9
        end = position(self._watch)
        stage.written.append(written(self._watch, start, end))
        stage.statements.append(sum(map(is_work, statements)))
        stage.sessions += sessions

    def forget(self) -> None:
        """Begin anew."""
        self.stages.clear()


def _copies_noted(statements: list[str]) -> AbstractContextManager[Any]:
    """Add each COPY to the statements, which Django's wrapper does not see."""
    copy = psycopg.Cursor.copy

    def noted(cursor: Any, statement: Any, *rest: Any) -> Any:
        statements.append(str(statement))
        return copy(cursor, statement, *rest)

    return patch.object(psycopg.Cursor, "copy", noted)


def _nanoseconds(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--load", type=int, default=0, help="also log the SQL statements of this many sessions"
    )
    parser.add_argument(
        "--database", help="URL of an empty migrated database on a server of its own"
    )
    given = parser.parse_args()
    jobs: int = given.load
    found: dict[str, Any] = {}
    with _given(given.database) or benchmark_database("reprise_bench_stages") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET autovacuum = off")
            connection.execute("SELECT pg_reload_conf()")
        found["stages"] = {name: stage.costs() for name, stage in measure(url).items()}
        if jobs:
            found["statements"] = round(_statements(url, jobs) / load.ATTEMPTS / jobs, 4)
    print(json.dumps(found))


def _given(url: str | None) -> AbstractContextManager[str] | None:
    if url is None:
        return None
    import django

    django.setup()
    from reprise.standalone.configuration import use_database

    use_database(url)
    return nullcontext(url)


def measure(url: str) -> dict[str, Stage]:
    """Return the costs of all stages, and of `attempt`, an average one of all that were made."""
    from django.conf import settings
    from django.test.utils import override_settings

    from sessions_app import wakeups

    meter = Meter(url)
    nobody = create_autospec(wakeups.Publisher, instance=True)
    hosts = [*settings.ALLOWED_HOSTS, "testserver"]
    with override_settings(ALLOWED_HOSTS=hosts), patch.object(wakeups, "publisher", nobody):
        chain = _chains(meter)
        next(chain)
        meter.forget()  # statements had to be prepared, and caches to be filled
        for _ in range(ROUNDS):
            next(chain)
    whole = Stage()
    for stage in meter.stages.values():
        whole.server += stage.server
        whole.postgres += stage.postgres
        whole.statements += stage.statements
        whole.written += stage.written
    whole.sessions = load.ATTEMPTS * ROUNDS * SESSIONS
    return {**meter.stages, "attempt": whole}


def _chains(meter: Meter) -> Iterator[None]:
    """Bring `SESSIONS` sessions through three attempts, each time anew."""
    from sessions_app.tasks import dispatch_due_retries
    from tests import factories
    from tests.agent import Agent, Api

    place = factories.project("stages")
    api = Api(factories.token(factories.user(project=place), project=place))
    agent = Agent(factories.executor("stages", projects=(place,)))
    agent.lease()
    body = {"command": ["true"], "retry_policy": factories.policy()}
    while True:
        with meter.stage("submit", SESSIONS):
            answer = api.post("sessions/bulk/", {"sessions": _named([body] * SESSIONS)})
        _expect(answer.status_code == 200, answer.content)
        for attempt in range(load.ATTEMPTS):
            with meter.stage("lease", SESSIONS):
                leased = agent.lease()
            _expect(len(leased) == SESSIONS, len(leased))
            with meter.stage("accept", SESSIONS):
                _report(agent, leased, "PREPARING")
            if attempt == load.ATTEMPTS - 1:
                with meter.stage("succeed", SESSIONS):
                    _report(agent, leased, "TERMINATED", termination={"exit_code": 0})
                break
            with meter.stage("fail", SESSIONS):
                _report(agent, leased, "ERROR", termination={"exit_code": 1})
            time.sleep(DUE_SECONDS)
            with meter.stage("dispatch", SESSIONS):
                dispatched = dispatch_due_retries()
            _expect(dispatched == SESSIONS, dispatched)
        yield


def _named(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"creation_id": str(UUID(bytes=os.urandom(16))), **body} for body in bodies]


def _report(agent: Any, sessions: list[UUID], status: str, **fields: Any) -> None:
    outcomes = agent.send(*[agent.reporting(each, status, **fields) for each in sessions])
    _expect(set(outcomes) == {"applied"}, outcomes)


def _expect(right: bool, found: Any) -> None:
    if not right:
        raise SystemExit(f"a stage did not do its work: {found}")


def _statements(url: str, jobs: int) -> int:
    """Return how many statements a whole system sends for so many sessions."""
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
        psycopg.connect(url, autocommit=True, options="-c log_statement=none") as connection,
        load.reprise(url, Path(directory)) as system,
    ):
        load.warm(system, url)
        (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
        log = Path(data).parent / "postgres.log"
        _log_statements(connection, "all")
        start = log.stat().st_size
        load.run(system, jobs)
        _log_statements(connection, "none")
        return sum(map(is_work, statements(log, start)))


def _log_statements(connection: "psycopg.Connection[Any]", which: LiteralString) -> None:
    connection.execute(f"ALTER SYSTEM SET log_statement = '{which}'")
    connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.1)  # until all backends have read it


if __name__ == "__main__":
    main()
