"""The cost of an idle standalone server: memory, processor time, statements.

The whole process tree counts, PostgreSQL included: 20 s, after 10 s of quiet. The statements are
those in PostgreSQL's own log. Transaction control and the pool's connection checks are no work and
not counted. The long form repeats it with 100,000 waiting sessions that no executor can run.

    python -m benchmarks.idle [--quick] [--web-processes N]
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from reprise_client import Client

from benchmarks.processes import cpu_seconds, memory_mb, tree
from reprise.standalone.postgres import EmbeddedPostgres

QUIET_SECONDS = 10.0
MEASURED_SECONDS = 20.0
SESSIONS = 100_000
BULK = 1_000
_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")
_FREE = re.compile(
    r"(BEGIN|COMMIT|ROLLBACK|SET|SAVEPOINT|RELEASE|DEALLOCATE|SELECT 1$|$)", re.IGNORECASE
)


@dataclass(frozen=True)
class Cost:
    """Memory in megabytes, CPU in percent of one core, and statements per minute."""

    rss_mb: float
    pss_mb: float
    cpu_percent: float
    statements_per_minute: float
    processes: int


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="skip the variant with many sessions")
    parser.add_argument("--web-processes", default="1", help="web processes of standalone")
    given = parser.parse_args()
    quick: bool = given.quick
    directory = Path(tempfile.mkdtemp(prefix="reprise-bench-"))
    server = subprocess.Popen(
        [
            *(sys.executable, "manage.py", "standalone", "--data-dir", str(directory)),
            *("--port", "0", "--web-processes", given.web_processes),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _await_ready(server)
        _log_statements(directory)
        idle = _measure(server.pid, directory)
        _show("idle", idle)
        result = {
            "rss_mb": round(idle.rss_mb, 1),
            "pss_mb": round(idle.pss_mb, 1),
            "cpu_percent": round(idle.cpu_percent, 2),
            "statements_per_minute": round(idle.statements_per_minute, 1),
        }
        if not quick:
            _submit_many(directory)
            full = _measure(server.pid, directory)
            _show(f"{SESSIONS} waiting", full)
            result["rss_mb_100k"] = round(full.rss_mb, 1)
            result["cpu_percent_100k"] = round(full.cpu_percent, 2)
        print(json.dumps(result))
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _await_ready(server: "subprocess.Popen[str]") -> None:
    assert server.stdout is not None  # a pipe was asked for
    for line in server.stdout:
        if "is ready at" in line:
            return
    raise SystemExit("the server did not start")


def _log_statements(directory: Path) -> None:
    with psycopg.connect(EmbeddedPostgres(directory).url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("SELECT pg_reload_conf()")


def _measure(root: int, directory: Path) -> Cost:
    time.sleep(QUIET_SECONDS)
    pids = tree(root)
    log = directory / "postgres.log"
    before, start, position = cpu_seconds(pids), time.monotonic(), log.stat().st_size
    time.sleep(MEASURED_SECONDS)
    seconds = time.monotonic() - start
    used = cpu_seconds(tree(root)) - before
    worked = [text for text in statements(log, position) if is_work(text)]
    resident, proportional = memory_mb(pids)
    return Cost(
        resident,
        proportional,
        100 * used / seconds,
        60 * len(worked) / seconds,
        len(pids),
    )


def is_work(statement: str) -> bool:
    """Return whether a statement is more than transaction control or a check of a connection."""
    return _FREE.match(statement) is None


def statements(log: Path, position: int) -> list[str]:
    """Return the statements in PostgreSQL's log after a byte, each on one line."""
    with log.open(encoding="utf-8", errors="replace") as file:
        file.seek(position)
        # Further lines of a statement begin with a tab.
        entries = file.read().replace("\n\t", " ").splitlines()
    return [" ".join(match[1].split()) for line in entries if (match := _STATEMENT.search(line))]


def _submit_many(directory: Path) -> None:
    credentials = json.loads((directory / "credentials.json").read_text())
    body = {"command": ["true"], "resources": {"example.com/none": "1"}}
    with Client(
        credentials["url"], credentials["token"], credentials["project"], timeout=120
    ) as client:
        for done in range(0, SESSIONS, BULK):
            client.sessions_create([body] * BULK)
            if done % 10_000 == 0:
                print(f"  {done} sessions submitted", file=sys.stderr)


def _show(what: str, cost: Cost) -> None:
    print(
        f"{what:16} {cost.rss_mb:6.0f} MB resident ({cost.pss_mb:.0f} MB proportional, "
        f"{cost.processes} processes)   {cost.cpu_percent:.2f} % of a core   "
        f"{cost.statements_per_minute:.0f} statements/min"
    )


if __name__ == "__main__":
    main()
