"""The curve: attempts a second with 1, 2 and 4 processes of a kind, and what an attempt costs then.

The load is that of `end_to_end.py`; each point has a database of its own. Web processes and
executors are multiplied, alone and together. Workers are multiplied if `BROKER_URL` names an empty
RabbitMQ, which standalone's own worker then uses, too.

    python -m benchmarks.curve [--quick]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg

from benchmarks import load
from benchmarks.database import benchmark_database
from benchmarks.processes import cpu_seconds, postgres_seconds, spent, tree

COUNTS = (1, 2, 4)
SESSIONS, QUICK_SESSIONS = 3_000, 600


def main() -> None:
    """Print a line for each point, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sessions")
    parser.add_argument(
        "--point",
        type=int,
        nargs=3,
        metavar=("WEBS", "EXECUTORS", "WORKERS"),
        help="measure only this one",
    )
    given = parser.parse_args()
    if given.point:
        print(json.dumps(_point(load.Shape(*given.point), _jobs(quick=given.quick))))
        return
    points = [_measured(shape, quick=given.quick) for shape in _shapes()]
    print(json.dumps({"cores": os.cpu_count(), "broker": _broker(), "points": points}))


def _jobs(*, quick: bool) -> int:
    return QUICK_SESSIONS if quick else SESSIONS


def _measured(shape: load.Shape, *, quick: bool) -> dict[str, Any]:
    """Measure a point in a process of its own: Django connects to one database in its life."""
    counts = [str(each) for each in (shape.webs, shape.executors, shape.workers)]
    command = [sys.executable, "-m", "benchmarks.curve", "--point", *counts]
    done = subprocess.run(
        [*command, *(["--quick"] if quick else [])],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"the point {', '.join(counts)} could not be measured")
    line = done.stdout.splitlines()[-1]
    print(line, flush=True)
    found: dict[str, Any] = json.loads(line)
    return found


def _broker() -> bool:
    return bool(os.environ.get("BROKER_URL"))


def _shapes() -> list[load.Shape]:
    """Return the shapes to measure, the smallest one first."""
    found = [load.Shape(webs=1)]
    for count in COUNTS[1:]:
        found += [load.Shape(webs=count), load.Shape(webs=1, executors=count)]
        if _broker():
            found.append(load.Shape(webs=1, workers=count))
        found.append(load.Shape(count, count, count if _broker() else 1))
    return found


def _point(shape: load.Shape, jobs: int) -> dict[str, Any]:
    """Measure one shape on an empty database."""
    with (
        benchmark_database("reprise_bench_curve") as url,
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
        load.reprise(url, Path(directory), shape=shape) as system,
        psycopg.connect(url, autocommit=True, application_name=load.WATCH) as connection,
    ):
        load.warm(system, url)
        before = _used(system), postgres_seconds(connection, without=load.WATCH)
        seconds = load.run(system, jobs)
        used = {name: each - before[0][name] for name, each in _used(system).items()}
        served = spent(before[1], postgres_seconds(connection, without=load.WATCH))
        system.check(load.WARM + jobs)
    attempts = load.ATTEMPTS * jobs
    cpu = {**used, "postgresql": sum(served.values())}
    return {
        **asdict(shape),
        "attempts_per_second": round(attempts / seconds, 1),
        "cores_used": round(sum(cpu.values()) / seconds, 2),
        "cpu_us": {name: round(1e6 * each / attempts, 1) for name, each in cpu.items()},
    }


def _used(system: load.System) -> dict[str, float]:
    """Return the CPU seconds of each tree of processes."""
    return {
        name: cpu_seconds([pid for root in roots for pid in tree(root)])
        for name, roots in system.processes.items()
    }


if __name__ == "__main__":
    main()
