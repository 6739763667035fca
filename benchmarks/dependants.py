"""Dependencies: how long 10,000 chains wait once the one that they wait for has ended.

A standalone server with all of its processes; times are those of the database, from the end of the
first chain to the last event of the last dependant. Four cases:

* release: all wait for the end of one chain, and begin (`release_seconds`).
* cancel: all wait for the success of one chain, which is cancelled, and end (`cancel_seconds`).
* cascade: ten levels, each of a tenth of the chains; a chain waits for one of the level before. The
  first nine levels end, the last one begins (`cascade_seconds`).
* line: each chain waits for the success of the one before, and all of them end (`line_seconds`).

Each should be at most 5 s. The dependants ask for more than any executor has, so that what is
measured is their release and not their runs. All invariants hold after the cases.

    python -m benchmarks.dependants [--quick]
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg
from reprise_client import Client

from benchmarks.database import benchmark_database
from benchmarks.load import BULK, credentials, reprise

MANY, FEW = 10_000, 2_000
LEVELS = 10
PAUSE = 0.05
PATIENCE = 60.0
NOWHERE = {"cpu": "100000"}
"""More than any executor has."""

_OPEN = "SELECT count(*) FROM sessions_app_dependency WHERE outcome = ''"
_SECONDS = """
    SELECT extract(epoch FROM max(e.time) - (
        SELECT finished_at FROM sessions_app_session WHERE id = %(first)s))::float8
    FROM sessions_app_sessionevent e JOIN sessions_app_session s ON s.id = e.session_id
    WHERE s.job_set = %(case)s AND s.id <> %(first)s
"""
_COUNTS = """
    SELECT count(*) FILTER (WHERE phase = 'waiting'), count(*) FILTER (WHERE phase = 'final')
    FROM sessions_app_session WHERE job_set = %(case)s AND id <> %(first)s
"""


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 dependants instead of 10,000")
    many = FEW if parser.parse_args().quick else MANY
    with (
        benchmark_database("reprise_bench_dependants") as url,
        tempfile.TemporaryDirectory() as directory,
        reprise(url, Path(directory)),
        psycopg.connect(url, autocommit=True) as connection,
    ):
        access = credentials(Path(directory))
        with Client(access["url"], access["token"], "bench/bench") as client:
            cases = Cases(client, connection, many)
            figures = {
                "release_seconds": cases.run("release", cases.flat("ended"), ends=0),
                "cancel_seconds": cases.run("cancel", cases.flat("succeeded"), ends=many),
                "cascade_seconds": cases.run("cascade", cases.levels, ends=many - many // LEVELS),
                "line_seconds": cases.run("line", cases.line, ends=many),
            }
        _require_whole()
    print(json.dumps({name: round(seconds, 2) for name, seconds in figures.items()}))


class Cases:
    """The cases, one after the other on one server."""

    def __init__(self, client: Client, connection: "psycopg.Connection[Any]", many: int):
        self._client, self._connection, self._many = client, connection, many

    def run(self, case: str, fill: Callable[[str], None], *, ends: int) -> float:
        """Return the seconds from the end of the first chain to the last dependant's event.

        Exits unless so many of them end and all others begin.
        """
        first = self._client.session_create(**_body(case, f"{case}-first")).id
        fill(case)
        self._client.cancel(first)
        begun = time.monotonic()
        while self._connection.execute(_OPEN).fetchone() != (0,):
            if time.monotonic() > begun + PATIENCE:
                raise SystemExit(f"{case}: some still wait after {PATIENCE:g} s")
            time.sleep(PAUSE)
        asked = {"case": case, "first": first}
        found = self._connection.execute(_COUNTS, asked).fetchone()
        if found != (self._many - ends, ends):
            raise SystemExit(f"{case}: {found} wait and have ended")
        row = self._connection.execute(_SECONDS, asked).fetchone()
        seconds = float(row[0]) if row else 0.0
        print(f"{case:8} {self._many:6} chains  {seconds:6.2f} s", flush=True)
        return seconds

    def flat(self, when: str) -> Callable[[str], None]:
        """Return what submits chains that all wait for the first one."""

        def fill(case: str) -> None:
            wanted = [{"session": f"{case}-first", "when": when}]
            self._submit([_body(case, depends_on=wanted) for _ in range(self._many)])

        return fill

    def levels(self, case: str) -> None:
        """Submit levels of chains, each of which waits for one of the level before."""
        width = self._many // LEVELS
        for level in range(LEVELS):
            bodies = []
            for number in range(width):
                on = f"{case}-{level - 1}-{number}" if level else f"{case}-first"
                when = "succeeded" if level < LEVELS - 1 else "ended"
                wanted = [{"session": on, "when": when}]
                bodies.append(_body(case, f"{case}-{level}-{number}", depends_on=wanted))
            self._submit(bodies)

    def line(self, case: str) -> None:
        """Submit chains, each of which waits for the one before."""
        names = [f"{case}-first", *(f"{case}-{number}" for number in range(self._many))]
        self._submit([_body(case, own, depends_on=[on]) for on, own in pairwise(names)])

    def _submit(self, bodies: list[dict[str, Any]]) -> None:
        for start in range(0, len(bodies), BULK):
            made = self._client.sessions_create(bodies[start : start + BULK])
            if {each.outcome for each in made} != {"created"}:
                raise SystemExit(f"a session was refused: {made[0].problem}")


def _body(case: str, creation_id: str | None = None, **fields: Any) -> dict[str, Any]:
    own = {} if creation_id is None else {"creation_id": creation_id}
    return {"command": ["true"], "resources": NOWHERE, "job_set": case, **own, **fields}


def _require_whole() -> None:
    from tests.invariants import check_all

    if wrong := check_all():
        raise SystemExit(f"{len(wrong)} records are wrong, the first one: {wrong[0]}")


if __name__ == "__main__":
    main()
