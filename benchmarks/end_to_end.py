"""End to end: no-op sessions that fail twice and then succeed, in attempts per second.

Reprise: a standalone server on the benchmark's PostgreSQL receives the sessions over HTTP. An
executor with the simulated driver leases them, reports their ends, and gets their retries (after a
millisecond). The peers do the same number of jobs, with two failures each, on the same PostgreSQL:
procrastinate, and pgqueuer in batches. Celery on RabbitMQ joins if a broker answers at
`BROKER_URL`; it writes nothing to a database. All are measured from the first submission to the
last success, with two worker processes that run and are warm, at their best number of clients.

With `--past N`, Reprise is then measured in pairs: beside N ended sessions of other projects, and
on a database without them. `growth` is the median ratio of these rates. A machine's speed may swing
by more than the past costs, so both sides of a pair run one after the other.

    python -m benchmarks.end_to_end [--quick] [--past N]
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks import load
from benchmarks.database import benchmark_database, use_instead
from benchmarks.peers import celery_peer, pgqueuer_peer, procrastinate_peer
from benchmarks.session_history import CHAINS_REPEAT, load_past

SESSIONS = 3_000
QUICK_SESSIONS = 1_500
CLIENTS = (1, 8, 32)
QUICK_CLIENTS = (8,)
PAIRS = 3


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs, one number of clients")
    parser.add_argument(
        "--past", type=int, default=0, help="number of ended sessions to load first, for `growth`"
    )
    given = parser.parse_args()
    quick: bool = given.quick
    past: int = given.past // CHAINS_REPEAT * CHAINS_REPEAT
    jobs, clients = (QUICK_SESSIONS, QUICK_CLIENTS) if quick else (SESSIONS, CLIENTS)
    measured = _measured(jobs, clients)
    ours = measured["reprise"] or 0.0
    result = {
        "attempts_per_second": round(ours, 1),
        "ratio_best_peer": _ratio(ours, measured["procrastinate"]),
        "ratio_celery": _ratio(ours, measured["celery"]),
        "ratio_pgqueuer": _ratio(ours, measured["pgqueuer"]),
    }
    if past:
        result["growth"] = round(_growth(jobs, past), 3)
    print(json.dumps(result))


def _growth(jobs: int, past: int) -> float:
    """Return the median ratio of the rates beside so many ended sessions to those without them."""
    ratios: list[float] = []
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-bench-"))
        without = stack.enter_context(benchmark_database("reprise_bench_without_past"))
        beside = stack.enter_context(benchmark_database("reprise_bench_with_past"))
        load_past(beside, past, ended=True)
        for number in range(PAIRS):
            rates: dict[str, float] = {}
            # Which side is first alternates.
            for url in (beside, without) if number % 2 else (without, beside):
                use_instead(url)
                place = Path(directory, f"{number}-{len(rates)}")
                rates[url] = _rate(load.reprise(url, place), url, jobs, runs=number + 1)
            ratios.append(rates[beside] / rates[without])
            _show("reprise", rates[without], "without a past")
            _show("reprise", rates[beside], f"beside {past:,d} ended sessions")
    return median(ratios)


def _measured(jobs: int, clients: Sequence[int]) -> dict[str, float | None]:
    """Return the attempts per second of each system, and show them as they come.

    A system is None if its broker does not answer.
    """
    measured: dict[str, float | None] = {}
    with (
        benchmark_database("reprise_bench_end_to_end") as url,
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
    ):
        peers: dict[str, Callable[[int], AbstractContextManager[load.System]]] = {
            "procrastinate": lambda n: load.on_postgres(procrastinate_peer, url, n),
            # For this peer the number of clients is the size of a batch.
            "pgqueuer": lambda n: load.on_postgres(pgqueuer_peer, url, 8 * n),
            "celery": lambda n: load.celery(Path(directory), n),
        }
        measured["reprise"] = _rate(load.reprise(url, Path(directory)), url, jobs)
        _show("reprise", measured["reprise"], "")
        for name, system in peers.items():
            if name == "celery" and not _broker_answers():
                measured[name] = None
                print("celery         no RabbitMQ answers: set BROKER_URL", file=sys.stderr)
                continue
            rate, best = max((_rate(system(n), url, jobs), n) for n in clients)
            measured[name] = rate
            _show(name, rate, f"2 workers, {best} clients each")
    return measured


def _show(name: str, rate: float | None, how: str) -> None:
    print(f"{name:14} {rate or 0:8.0f} attempts/s   {how}", flush=True)


def _ratio(ours: float, peer: float | None) -> float | None:
    return round(ours / peer, 3) if peer else None


def _rate(
    system: AbstractContextManager[load.System], url: str, jobs: int, *, runs: int = 1
) -> float:
    """Return attempts per second from the first submission to the last success.

    It is the last one of so many `runs` on its database.
    """
    with system as running:
        load.warm(running, url)
        seconds = load.run(running, jobs)
        running.check(runs * (load.WARM + jobs))
        return load.ATTEMPTS * jobs / seconds


def _broker_answers() -> bool:
    try:
        with celery_peer.app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=3)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
