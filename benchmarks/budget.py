"""The budget: what one attempt costs, in CPU time, log, statements, commits and calls.

Two of three attempts fail, as in `end_to_end.py`, and the same processes do the work: a standalone
server, an executor with the simulated driver, a client, PostgreSQL. All counts are divided by the
number of attempts.

* CPU time is the kernel's, of each tree of processes, with those that have ended; of PostgreSQL
  also what serves no connection (checkpointer, writers, autovacuum). The end is read 0.3 s after
  the last success. `ratio_pgqueuer` is that of all of Reprise to all of pgqueuer, which does the
  same number of jobs in the same run, with workers, client and PostgreSQL.
* Log, commits (of transactions that wrote), rows and index entries are read from PostgreSQL's own
  log, between a checkpoint and the end. Images of pages stand apart: their number says how long ago
  the checkpoint was.
* HTTP calls are what the server itself counts.
* Statements and the stages have a run of their own (`stages.py`) on an embedded PostgreSQL,
  because counting them costs time: statements of the same load from PostgreSQL's log, without
  transaction control; the stages by calling the server's REST interface in this process, 200
  sessions a call, without a network, a client or an executor.

    python -m benchmarks.budget [--quick]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg

from benchmarks import load
from benchmarks.database import benchmark_database
from benchmarks.peers import pgqueuer_peer
from benchmarks.processes import cpu_seconds, postgres_seconds, spent, tree
from benchmarks.wal import Written, position, written

SESSIONS, QUICK_SESSIONS = 6_000, 1_500
PGQUEUER_BATCH = 64
SETTLED_SECONDS = 0.3
_REQUESTS = re.compile(r'^reprise_http_requests_total\{door="([^"]*)".*?route="([^"]*)".*?\} (\S+)')


@dataclass(frozen=True)
class Cost:
    """The costs of a number of jobs."""

    attempts: int
    seconds: float
    processes: dict[str, float]
    """CPU seconds."""
    postgres: dict[str, float]
    written: Written
    calls: dict[str, float]

    def micros(self, seconds: float) -> float:
        """Return CPU time per attempt, in microseconds."""
        return 1e6 * seconds / self.attempts

    @property
    def backends(self) -> float:
        """Return the CPU seconds of connections."""
        return sum(used for kind, used in self.postgres.items() if kind.startswith("backends"))

    @property
    def cpu(self) -> float:
        """Return all CPU seconds."""
        return sum(self.processes.values()) + sum(self.postgres.values())


def main() -> None:
    """Print the tables, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sessions")
    quick = parser.parse_args().quick
    jobs = QUICK_SESSIONS if quick else SESSIONS
    counted = _count(jobs)
    with (
        benchmark_database("reprise_bench_budget") as url,
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
    ):
        with load.reprise(url, Path(directory)) as system:
            ours = _measure(system, url, jobs)
        with load.on_postgres(pgqueuer_peer, url, PGQUEUER_BATCH) as system:
            peer = _measure(system, url, jobs)
    _show("reprise", ours)
    _show("pgqueuer", peer)
    _show_stages(counted["stages"])
    print(json.dumps(_result(ours, peer, counted)))


def _count(jobs: int) -> dict[str, Any]:
    """Return the statements of an attempt and the costs of the stages, from a run of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.stages", "--load", str(jobs)],
        env={**os.environ, "DATABASE_URL": "none"},
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise SystemExit("the stages could not be counted")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(system: load.System, url: str, jobs: int) -> Cost:
    load.warm(system, url)
    client = 0.0

    def submit(count: int) -> None:
        # Looking for the end is also done by this process, and is no client's work.
        nonlocal client
        began = time.process_time()
        system.submit(count)
        client += time.process_time() - began

    with psycopg.connect(
        url, autocommit=True, application_name=load.WATCH, prepare_threshold=None
    ) as connection:
        calls, start = _calls(system), position(connection)
        postgres, processes = postgres_seconds(connection, without=load.WATCH), _used(system)
        seconds = load.run(replace(system, submit=submit), jobs)
        time.sleep(SETTLED_SECONDS)
        used = {name: each - processes[name] for name, each in _used(system).items()}
        served = spent(postgres, postgres_seconds(connection, without=load.WATCH))
        end, told = position(connection), _calls(system)
        system.check(load.WARM + jobs)
        return Cost(
            load.ATTEMPTS * jobs,
            seconds,
            {"client": client, **used},
            served,
            written(connection, start, end),
            {name: count - calls.get(name, 0.0) for name, count in told.items()},
        )


def _used(system: load.System) -> dict[str, float]:
    """Return the CPU seconds of each tree of processes."""
    return {
        name: cpu_seconds([pid for root in roots for pid in tree(root)])
        for name, roots in system.processes.items()
    }


def _calls(system: load.System) -> dict[str, float]:
    """Return how many calls the server has answered, by route, without those of operators."""
    if not system.address:
        return {}
    request = urllib.request.Request(
        f"{system.address}/metrics", headers={"Authorization": f"Bearer {load.METRICS_TOKEN}"}
    )
    found: dict[str, float] = {}
    with urllib.request.urlopen(request) as answer:
        for line in answer.read().decode().splitlines():
            if (match := _REQUESTS.match(line)) and match[1] != "operations":
                found[match[2]] = found.get(match[2], 0.0) + float(match[3])
    return found


def _show(name: str, cost: Cost) -> None:
    print(
        f"{name:10} {cost.micros(cost.cpu):6.0f} us of CPU an attempt   "
        f"{cost.attempts / cost.seconds:.0f} attempts/s"
    )
    for kind, used in {**cost.processes, **cost.postgres}.items():
        print(f"    {kind:30} {cost.micros(used):8.1f} us")
    for route, count in cost.calls.items():
        if count:
            print(f"    {route:50} {count / cost.attempts:8.4f} calls")
    log = cost.written
    print(
        f"    log {log.size / cost.attempts:.0f} bytes, images of pages "
        f"{log.images / cost.attempts:.0f} bytes, {log.commits / cost.attempts:.3f} commits"
    )
    print("    table                              inserted updated   (HOT) deleted entries   bytes")
    for table, each in sorted(log.tables.items(), key=lambda item: -item[1].size):
        if each.size / cost.attempts >= 1:
            counts = (each.inserted, each.updated, each.hot, each.deleted, each.entries)
            told = " ".join(f"{count / cost.attempts:7.3f}" for count in counts)
            print(f"    {table:34}  {told} {each.size / cost.attempts:7.0f}")


def _show_stages(stages: dict[str, dict[str, float]]) -> None:
    names = [name for name in next(iter(stages.values())) if not name.endswith("_a_call")]
    print(f"{'a session in':12} " + " ".join(f"{name:>13}" for name in names))
    for stage, costs in stages.items():
        print(f"{stage:12} " + " ".join(f"{costs[name]:13.3f}" for name in names))


def _result(ours: Cost, peer: Cost, counted: dict[str, Any]) -> dict[str, Any]:
    background = sum(ours.postgres.values()) - ours.backends
    return {
        "cpu_us": round(ours.micros(ours.cpu), 1),
        "cpu_server_us": round(ours.micros(ours.processes["server"]), 1),
        "cpu_postgresql_us": round(ours.micros(ours.backends + background), 1),
        "cpu_postgresql_background_us": round(ours.micros(background), 1),
        "cpu_executor_us": round(ours.micros(ours.processes["executor"]), 1),
        "cpu_client_us": round(ours.micros(ours.processes["client"]), 1),
        "wal_bytes": round(ours.written.size / ours.attempts),
        "wal_fpi_bytes": round(ours.written.images / ours.attempts),
        "statements": counted["statements"],
        "commits": round(ours.written.commits / ours.attempts, 4),
        "http_calls": round(sum(ours.calls.values()) / ours.attempts, 4),
        "ratio_pgqueuer": round(ours.cpu / peer.cpu, 3),
        "cpu_pgqueuer_us": round(peer.micros(peer.cpu), 1),
        "wal_pgqueuer_bytes": round(peer.written.size / peer.attempts),
        "attempts_per_second": round(ours.attempts / ours.seconds, 1),
        "stages": counted["stages"],
    }


if __name__ == "__main__":
    main()
