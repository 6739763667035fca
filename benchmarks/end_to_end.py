"""End to end: no-op sessions that fail twice and then succeed, in attempts per second.

Reprise: a standalone server on the benchmark's PostgreSQL receives the sessions over HTTP. An
executor with the simulated driver leases them, reports their ends, and gets their retries (after a
millisecond). The peers do the same number of jobs, with two failures each, on the same PostgreSQL:
procrastinate, and pgqueuer in batches. Celery on RabbitMQ joins if a broker answers at
`BROKER_URL`; it writes nothing to a database. All are measured from the first submission to the
last success, with two worker processes, at their best number of clients.

    python -m benchmarks.end_to_end [--quick]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg
from reprise_client import Client

from benchmarks.database import benchmark_database
from benchmarks.peers import celery_peer, pgqueuer_peer, procrastinate_peer

ATTEMPTS = 3
SESSIONS = 3_000
QUICK_SESSIONS = 1_500
BULK = 500
SLOTS = 2_000
CLIENTS = (1, 8, 32)
QUICK_CLIENTS = (8,)
DEADLINE_SECONDS = 120.0


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs, one number of clients")
    quick = parser.parse_args().quick
    jobs, clients = (QUICK_SESSIONS, QUICK_CLIENTS) if quick else (SESSIONS, CLIENTS)
    measured: dict[str, float | None] = {}
    with (
        benchmark_database("reprise_bench_end_to_end") as url,
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as directory,
    ):
        peers: dict[str, Callable[[int], float]] = {
            "procrastinate": lambda n: _on_postgres(procrastinate_peer, url, jobs, n),
            # For this peer the number of clients is the size of a batch.
            "pgqueuer": lambda n: _on_postgres(pgqueuer_peer, url, jobs, 8 * n),
            "celery": lambda n: _celery(Path(directory), jobs, n),
        }
        measured["reprise"] = _ours(url, Path(directory), jobs)
        _show("reprise", measured["reprise"], "")
        for name, measure in peers.items():
            if name == "celery" and not _broker_answers():
                measured[name] = None
                print("celery         no RabbitMQ answers: set BROKER_URL", file=sys.stderr)
                continue
            rate, best = max((measure(n), n) for n in clients)
            measured[name] = rate
            _show(name, rate, f"2 workers, {best} clients each")
    ours = measured["reprise"] or 0.0
    print(
        json.dumps(
            {
                "attempts_per_second": round(ours, 1),
                "ratio_best_peer": _ratio(ours, measured["procrastinate"]),
                "ratio_celery": _ratio(ours, measured["celery"]),
                "ratio_pgqueuer": _ratio(ours, measured["pgqueuer"]),
            }
        )
    )


def _show(name: str, rate: float | None, how: str) -> None:
    print(f"{name:14} {rate or 0:8.0f} attempts/s   {how}", flush=True)


def _ratio(ours: float, peer: float | None) -> float | None:
    return round(ours / peer, 3) if peer else None


def _rate(jobs: int, submit: Callable[[], None], finished: Callable[[], int]) -> float:
    """Return attempts per second from the first submission to the last success."""
    start = time.perf_counter()
    submit()
    while (done := finished()) < jobs:
        if time.perf_counter() - start > DEADLINE_SECONDS:
            raise SystemExit(f"only {done} of {jobs} have succeeded in {DEADLINE_SECONDS:g} s")
        time.sleep(0.02)
    return ATTEMPTS * jobs / (time.perf_counter() - start)


@contextmanager
def _workers(
    commands: Sequence[Sequence[str]],
    ready: str = "",
    environ: Mapping[str, str] | None = None,
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[None]:
    """Run processes during the block. With `ready`, wait until each has printed that text."""
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **(environ or {})},
            stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if ready else None,
            text=True,
        )
        for command in commands
    ]
    try:
        for process in started:
            if process.stdout is not None and not any(ready in line for line in process.stdout):
                raise SystemExit(f"{process.args!r} has not started")
        yield
    finally:
        for process in started:
            process.send_signal(end)
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _on_postgres(peer: Any, url: str, jobs: int, size: int) -> float:
    """Return the rate of a peer whose jobs are rows; `size` is passed to its workers."""
    peer.prepare(url)
    command = [sys.executable, "-m", peer.__name__, url, str(size)]
    with (
        psycopg.connect(url, autocommit=True) as connection,
        _workers([command] * 2, ready="ready"),
    ):
        return _rate(jobs, lambda: peer.submit(url, jobs), lambda: peer.finished(connection))


def _celery(directory: Path, jobs: int, clients: int) -> float:
    done = directory / f"done-{clients}"
    done.touch()
    with celery_peer.app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        channel.queue_delete(celery_peer.QUEUE)
    command = [
        *(sys.executable, "-m", "celery", "-A", "benchmarks.peers.celery_peer", "worker"),
        *("--pool", "threads", "--concurrency", str(clients), "--loglevel", "CRITICAL"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
    environ = {"REPRISE_BENCH_DONE": str(done), "PYTHONWARNINGS": "ignore"}  # of running as root
    names = [["-n", f"bench{number}"] for number in range(2)]
    commands = [[*command, *name] for name in names]
    # SIGTERM is not used, because its threads take longer to stop than all the jobs.
    with _workers(commands, environ=environ, end=signal.SIGKILL):
        _await_consumers()
        return _rate(jobs, lambda: celery_peer.submit(jobs), lambda: done.stat().st_size)


def _await_consumers() -> None:
    deadline = time.monotonic() + 30
    with celery_peer.app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        while time.monotonic() < deadline:
            try:
                if channel.queue_declare(celery_peer.QUEUE, passive=True).consumer_count == 2:
                    return
            except connection.channel_errors:
                channel = connection.channel()
            time.sleep(0.1)
    raise SystemExit("the Celery workers have not started")


def _broker_answers() -> bool:
    try:
        with celery_peer.app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=3)
    except OSError:
        return False
    return True


def _ours(url: str, directory: Path, jobs: int) -> float:
    data_dir = directory / "standalone"
    data_dir.mkdir()
    server = [sys.executable, "manage.py", "standalone", "--data-dir", str(data_dir), "--port", "0"]
    with (
        _workers([server], ready="is ready at", environ={"DATABASE_URL": url}),
        psycopg.connect(url, autocommit=True) as connection,
    ):
        credentials = json.loads((data_dir / "credentials.json").read_text())
        token = directory / "executor.token"
        _make_executor(token)
        agent = [
            *(sys.executable, "-m", "executor", "--name", "bench", "--url", credentials["url"]),
            *("--token-file", str(token), "--state-dir", str(directory / "agent")),
            *("--driver", "simulated", "--max-sessions", str(SLOTS)),
        ]
        with (
            _workers([agent]),
            Client(credentials["url"], credentials["token"], "bench/bench") as client,
        ):
            _await_executor(connection)
            return _rate(jobs, lambda: _submit(client, jobs), lambda: _succeeded(connection))


def _make_executor(token: Path) -> None:
    """Create an executor with its own project, which the standalone server's executor does not
    serve."""
    from reprise.standalone.credentials import ensure_executor_token
    from scheduler.services.registration import executor_ensure
    from sessions_app.services.resources.tenants import project_ensure

    project, _ = project_ensure(domain="bench", name="bench", by="bench")
    executor_ensure(name="bench", projects=[project], by="bench")
    ensure_executor_token(token, "bench")


def _await_executor(connection: "psycopg.Connection[Any]") -> None:
    deadline = time.monotonic() + 30
    seen = "SELECT FROM scheduler_executor WHERE name = 'bench' AND last_seen_at IS NOT NULL"
    while connection.execute(seen).fetchone() is None:
        if time.monotonic() > deadline:
            raise SystemExit("the executor has not started")
        time.sleep(0.02)


def _submit(client: Client, jobs: int) -> None:
    body = {
        "command": ["true"],
        "environ": {"REPRISE_SIMULATE": json.dumps({"exit_codes": [1, 1, 0], "seconds": 0})},
        "retry_policy": {"max_retries": 5, "retry_delay": 0.001, "jitter": "none"},
    }
    for start in range(0, jobs, BULK):
        client.sessions_create([body] * min(BULK, jobs - start))


def _succeeded(connection: "psycopg.Connection[Any]") -> int:
    row = connection.execute(
        "SELECT count(*) FROM sessions_app_session s JOIN sessions_app_project p "
        "ON p.id = s.project_id WHERE p.name = 'bench' AND s.status = 'TERMINATED' "
        "AND s.phase = 'final'"
    ).fetchone()
    return row[0] if row else 0


if __name__ == "__main__":
    main()
