"""Endurance: a steady load for many minutes, to see whether anything grows.

The same processes as in `end_to_end.py` get sessions at a steady rate, whether they keep up or not.
A tenth of the attempts fail, and are retried after a millisecond. The same load comes for ten
minutes before, until each connection to PostgreSQL has planned what it will ask. Each look (every
10 s, or twelve in a short run) reads attempts that ended, how late retries were, memory of each
process, dead rows, vacuums and sizes of all tables and indexes. A client of its own gets one
session and one page of a list, 20 times a second each. The JSON line says whether the load was
held, and if not, why:

* at least 98 % of the rate, and p99 of get and list below 150 ms in the last minute;
* memory of no process 5 % and 8 MB above that of the second quarter in the last quarter;
* no table with more dead rows in the last quarter than in the second one, for its size;
* no table or index above 16 MB whose bytes grew more than its rows.

Autovacuum and retention run as shipped. To be run by hand.

    python -m benchmarks.endurance [--rate 500] [--minutes 20] [--warm-up 10] [--web-processes N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg
from reprise_client import Client

from benchmarks import endurance_judgement as judgement
from benchmarks import load
from benchmarks.database import benchmark_database
from benchmarks.endurance_watch import Look, Watch

FAILING = 9
"""Every ninth session fails once: a tenth of the attempts do."""
TICK = 0.1
LOOK_SECONDS = 10.0
LEAST_LOOKS = 12
DRAIN_SECONDS = 60.0
PROBED_SECONDS = 60.0


@dataclass
class Offered:
    """Sessions offered to a server, at a steady rate, by a thread."""

    client: Client
    chains_per_second: float
    stopped: Event = field(default_factory=Event)
    sent: int = 0
    late_s: float = 0.0
    """The longest that a call began after its time: the server or this program was too slow."""
    error: BaseException | None = None

    def run(self) -> None:
        """Submit what is due, ten times a second; what came late is not left out."""
        began = time.monotonic()
        try:
            while not self.stopped.wait(TICK):
                due = int((time.monotonic() - began) * self.chains_per_second)
                while self.sent < due:
                    count = min(load.BULK, due - self.sent)
                    late = time.monotonic() - began - self.sent / self.chains_per_second
                    self.late_s = max(self.late_s, late - TICK)
                    self.client.sessions_create([_body(self.sent + n) for n in range(count)])
                    self.sent += count
        except BaseException as error:  # noqa: BLE001  # the main thread raises it
            self.error = error


def _body(number: int) -> dict[str, Any]:
    codes = [1, 0] if number % FAILING == 0 else [0]
    return {
        "command": ["true"],
        "environ": {"REPRISE_SIMULATE": json.dumps({"exit_codes": codes, "seconds": 1})},
        "retry_policy": {"max_retries": 5, "retry_delay": 0.001, "jitter": "none"},
    }


def main() -> None:
    """Print one JSON line; progress goes to stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0, help="attempts a second")
    parser.add_argument("--minutes", type=float, default=20.0, help="minutes that are judged")
    parser.add_argument("--warm-up", type=float, default=10.0, help="minutes of load before them")
    parser.add_argument("--web-processes", type=int, help="of standalone; its own default if not")
    given = parser.parse_args()
    with (
        benchmark_database("reprise_bench_endurance") as url,
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
        load.reprise(url, Path(directory), shape=load.Shape(given.web_processes)) as system,
        psycopg.connect(url, autocommit=True, application_name=load.WATCH) as connection,
    ):
        access = load.credentials(Path(directory))
        roots = {name: list(pids) for name, pids in system.processes.items()}
        watch = Watch(connection, roots)
        load.checkpoint(url)
        seconds, warm_up = 60 * given.minutes, 60 * given.warm_up
        with _probes(access, warm_up + seconds) as probes:
            offered, looks = _endure(
                watch, access, rate=given.rate, seconds=seconds, warm_up=warm_up
            )
        wrong = _unfinished(system) or _not_as_offered(connection, offered.sent)
    print(json.dumps(_result(looks, offered, probes, wrong, given.rate)))


def _endure(
    watch: Watch, access: dict[str, str], *, rate: float, seconds: float, warm_up: float
) -> tuple[Offered, list[Look]]:
    """Offer the load for so many seconds, and look at the system meanwhile.

    Return only the looks after the warm-up, whose times begin with it.
    """
    looks = []
    with Client(access["url"], access["token"], load.PROJECT) as client:
        offered = Offered(client, rate * FAILING / (FAILING + 1))
        thread = Thread(target=offered.run, daemon=True)
        began = time.monotonic()
        thread.start()
        every = min(LOOK_SECONDS, seconds / LEAST_LOOKS)
        warm = round(warm_up / every)
        for number in range(1, warm + round(seconds / every) + 1):
            time.sleep(max(0.0, began + number * every - time.monotonic()))
            looks.append(watch.look(time.monotonic() - began - warm * every))
            _show(looks, every)
            if offered.error is not None:
                break
        offered.stopped.set()
        thread.join()
    if offered.error is not None:
        raise offered.error
    return offered, looks[warm:]


def _show(looks: list[Look], every: float) -> None:
    now, before = looks[-1], looks[-2].at if len(looks) > 1 else looks[-1].at - every
    dead = max(now.tables.items(), key=lambda item: item[1].dead)
    sizes = sum(each.size for kind in (now.tables, now.indexes) for each in kind.values())
    print(
        f"{now.at:6.0f} s {now.attempts / (now.at - before):6.0f} attempts/s   "
        f"retries p99 {now.late_p99_s:6.3f} s late   "
        + ", ".join(f"{name} {size:.0f} MB" for name, size in now.rss_mb.items())
        + f"   {dead[1].dead} dead rows in {dead[0]}   database {sizes >> 20} MB",
        file=sys.stderr,
        flush=True,
    )


@contextmanager
def _probes(access: dict[str, str], seconds: float) -> Iterator[dict[str, float]]:
    """Measure calls in a process of their own; yield what will hold their latencies."""
    found: dict[str, float] = {}
    command = [sys.executable, "-m", "benchmarks.endurance_client", access["url"], load.PROJECT]
    lengths = [str(seconds), str(min(seconds, PROBED_SECONDS))]
    with subprocess.Popen(
        [*command, *lengths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        try:
            assert client.stdin  # a pipe was asked for
            client.stdin.write(f"{access['token']}\n")
            client.stdin.flush()
            yield found
            output, _ = client.communicate(timeout=DRAIN_SECONDS)
        except BaseException:
            client.kill()
            raise
    if client.returncode:
        raise SystemExit("the client that measures calls has failed")
    found.update(json.loads(output))


def _unfinished(system: load.System) -> list[str]:
    """Wait until nothing is left to do; return the reason if that takes too long."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while system.unfinished():
        if time.monotonic() > deadline:
            return [f"sessions are unfinished {DRAIN_SECONDS:g} s after the load"]
        time.sleep(load.PAUSE)
    return []


_COUNTS = """
    SELECT count(*) FILTER (WHERE s.status = 'TERMINATED'),
        count(*) FILTER (WHERE s.status = 'ERROR'), count(d.next_session_id)
    FROM sessions_app_session s JOIN sessions_app_project p ON p.id = s.project_id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    WHERE p.name = 'bench'
"""


def _not_as_offered(connection: "psycopg.Connection[Any]", chains: int) -> list[str]:
    """Return what is wrong with the records of this many chains."""
    failures = -(-chains // FAILING)
    found = connection.execute(_COUNTS).fetchone()
    expected = (chains, failures, failures)
    if found == expected:
        return []
    return [f"successes, failures and retries are {found}, expected {expected}"]


def _result(
    looks: list[Look], offered: Offered, probes: dict[str, float], wrong: list[str], rate: float
) -> dict[str, Any]:
    reached = sum(each.attempts for each in looks) / looks[-1].at
    p99 = {name: probes[name] for name in ("p99_get_ms", "p99_list_ms")}
    reasons = wrong + judgement.reasons(looks, rate=rate, reached=reached, latencies_ms=p99)
    dead = judgement.dead_rows(looks)
    return {
        "rate_reached": round(reached, 1),
        **probes,
        "retry_late_p99_s": round(max(each.late_p99_s for each in looks), 3),
        "offered_late_s": round(offered.late_s, 3),
        "rss_growth": judgement.rss_growth(looks),
        "rss_mb": {name: round(size, 1) for name, size in looks[-1].rss_mb.items()},
        "dead_rows_peak": {name: each["peak"] for name, each in dead.items()},
        "dead_rows_end": {name: each["end"] for name, each in dead.items()},
        "autovacuums": {name: each["autovacuums"] for name, each in dead.items()},
        "bloat": judgement.bloat(looks),
        "passed": not reasons,
        "reasons": reasons,
    }


if __name__ == "__main__":
    main()
