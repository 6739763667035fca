"""The load that benchmarks put on Reprise and its peers: jobs that fail twice and then succeed.

All are treated alike. Processes start and do some jobs before the clock starts; a checkpoint comes
before it; the end is the moment at which nothing is unfinished any more, which is asked 50 times a
second by a query that stops at the first row it finds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from reprise_client import Client

from benchmarks.checks import require_whole
from benchmarks.peers import celery_peer

ATTEMPTS = 3
WARM = 300
"""Jobs before the clock."""
BULK = 500
PROJECT = "bench/bench"
SLOTS = 2_000
WORKERS = 2
PAUSE = 0.02
DEADLINE_SECONDS = 120.0
METRICS_TOKEN = "bench"
WATCH = "bench-watch"
"""The application name of the connection that looks for the end; its work is not the system's."""


@dataclass(frozen=True)
class System:
    """A system whose processes run, and which does jobs."""

    submit: Callable[[int], None]
    unfinished: Callable[[], bool]
    succeeded: Callable[[], int]
    check: Callable[[int], None] = lambda _jobs: None
    """Exits with the reason if the records of so many jobs, all that there are, are not whole."""
    processes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The roots of its trees of processes, by what they are."""
    address: str = ""
    """Of its HTTP server."""


def warm(system: System, url: str) -> None:
    """Do some jobs, then write a checkpoint: what is measured next begins with clean pages."""
    run(system, WARM)
    checkpoint(url)


def checkpoint(url: str) -> None:
    """Write a checkpoint."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")


def run(system: System, jobs: int) -> float:
    """Do this number of jobs. Return the seconds from the first submission to the last success."""
    before = system.succeeded()
    start = time.perf_counter()
    system.submit(jobs)
    while system.unfinished():
        if time.perf_counter() - start > DEADLINE_SECONDS:
            done = system.succeeded() - before
            raise SystemExit(f"only {done} of {jobs} have succeeded in {DEADLINE_SECONDS:g} s")
        time.sleep(PAUSE)
    seconds = time.perf_counter() - start
    if (done := system.succeeded() - before) != jobs:
        raise SystemExit(f"{done} of {jobs} jobs have succeeded, and none is left")
    return seconds


@dataclass(frozen=True)
class Shape:
    """The numbers of processes of Reprise, by kind."""

    webs: int | None = None
    """Of standalone; None: as many as it takes by itself."""
    executors: int = 1
    workers: int = 1
    """Standalone's own, and further ones of Celery, which need `BROKER_URL`."""


@contextmanager
def reprise(
    url: str, directory: Path, *, slots: int = SLOTS, shape: Shape = Shape()
) -> Iterator[System]:
    """Run a standalone server on the database and executors with the simulated driver."""
    data_dir = directory / "standalone"
    data_dir.mkdir(parents=True)
    command = [sys.executable, "manage.py", "standalone", "--data-dir", str(data_dir)]
    webs = [] if shape.webs is None else ["--web-processes", str(shape.webs)]
    environ = {"DATABASE_URL": url, "REPRISE_METRICS_TOKEN": METRICS_TOKEN}
    with ExitStack() as stack:
        (server,) = stack.enter_context(
            started([[*command, "--port", "0", *webs]], ready="is ready at", environ=environ)
        )
        workers = stack.enter_context(started(_workers(shape.workers), environ=environ))
        access = credentials(directory)
        agents = [_agent(directory, access["url"], n, slots) for n in range(shape.executors)]
        executors = stack.enter_context(started(agents))
        client = stack.enter_context(Client(access["url"], access["token"], PROJECT))
        connection = stack.enter_context(_watching(url))
        _await_executors(connection, shape.executors)
        yield System(
            submit=lambda jobs: _submit(client, jobs),
            unfinished=lambda: _first(connection, _UNFINISHED),
            succeeded=lambda: _first(connection, _SUCCEEDED),
            check=lambda jobs: require_whole("bench", jobs, failures=ATTEMPTS - 1),
            processes={"server": [server], "executor": executors, "workers": workers},
            address=access["url"],
        )


def credentials(directory: Path) -> dict[str, str]:
    """Return URL and token of the server that `reprise` runs in this directory."""
    found: dict[str, str] = json.loads((directory / "standalone/credentials.json").read_text())
    return found


def _workers(count: int) -> list[list[str]]:
    """Return the commands of the workers beside standalone's own."""
    command = [
        *(sys.executable, "-m", "celery", "--quiet", "-A", "reprise", "worker", "-c", "2"),
        *("-Q", "retry,verification,webhooks,maintenance", "--without-gossip"),
        *("--without-mingle", "-l", "WARNING"),
    ]
    return [[*command, "-n", f"bench{number}@%h"] for number in range(1, count)]


def _agent(directory: Path, url: str, number: int, slots: int) -> list[str]:
    """Register an executor; return the command of its agent."""
    name = f"bench{number or ''}"
    token = directory / f"{name}.token"
    _make_executor(name, token)
    return [
        *(sys.executable, "-m", "executor", "--name", name, "--url", url),
        *("--token-file", str(token), "--state-dir", str(directory / f"agent{number}")),
        *("--driver", "simulated", "--max-sessions", str(slots)),
    ]


_SEEN = """
    SELECT count(*) FROM scheduler_executor
    WHERE name LIKE 'bench%' AND last_seen_at IS NOT NULL
"""
# Each part is the first entry of a small index.
_UNFINISHED = """
    SELECT EXISTS (SELECT FROM sessions_app_session WHERE phase = 'waiting')
        OR EXISTS (SELECT FROM sessions_app_session WHERE phase = 'live')
        OR EXISTS (SELECT FROM sessions_app_retrydecision WHERE state = 'scheduled')
"""
_SUCCEEDED = """
    SELECT count(*) FROM sessions_app_session s JOIN sessions_app_project p ON p.id = s.project_id
    WHERE p.name = 'bench' AND s.status = 'TERMINATED' AND s.phase = 'final'
"""


@contextmanager
def _watching(url: str) -> Iterator["psycopg.Connection[Any]"]:
    """Yield a connection that takes the first entry of an index, however small the table is."""
    options = f"-c enable_seqscan=off -c application_name={WATCH} -c log_statement=none"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        yield connection


def _first(connection: "psycopg.Connection[Any]", query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _make_executor(name: str, token: Path) -> None:
    """Create an executor with the project of the load, which standalone's own does not serve."""
    from reprise.standalone.credentials import ensure_executor_token
    from scheduler.services.registration import executor_ensure
    from sessions_app.services.resources.tenants import project_ensure

    project, _ = project_ensure(domain="bench", name="bench", by="bench")
    executor_ensure(name=name, projects=[project], by="bench")
    ensure_executor_token(token, name)


def _await_executors(connection: "psycopg.Connection[Any]", count: int) -> None:
    deadline = time.monotonic() + 30
    while _first(connection, _SEEN) < count:
        if time.monotonic() > deadline:
            raise SystemExit("an executor has not started")
        time.sleep(PAUSE)


def _submit(client: Client, jobs: int) -> None:
    body = {
        "command": ["true"],
        "environ": {"REPRISE_SIMULATE": json.dumps({"exit_codes": [1, 1, 0], "seconds": 0})},
        "retry_policy": {"max_retries": 5, "retry_delay": 0.001, "jitter": "none"},
    }
    for start in range(0, jobs, BULK):
        client.sessions_create([body] * min(BULK, jobs - start))


@contextmanager
def on_postgres(peer: Any, url: str, size: int) -> Iterator[System]:
    """Run the workers of a peer whose jobs are rows; `size` is passed to them."""
    peer.prepare(url)
    command = [sys.executable, "-m", peer.__name__, url, str(size)]
    with (
        started([command] * WORKERS, ready="ready") as workers,
        _watching(url) as connection,
    ):
        yield System(
            submit=lambda jobs: peer.submit(url, jobs),
            unfinished=lambda: _first(connection, peer.UNFINISHED),
            succeeded=lambda: _first(connection, peer.SUCCEEDED),
            processes={"workers": workers},
        )


@contextmanager
def celery(directory: Path, clients: int) -> Iterator[System]:
    """Run two Celery workers, which write a byte for each success."""
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
    names = [["-n", f"bench{number}"] for number in range(WORKERS)]
    commands = [[*command, *name] for name in names]
    submitted = 0

    def submit(jobs: int) -> None:
        nonlocal submitted
        submitted += jobs
        celery_peer.submit(jobs)

    # SIGTERM is not used, because its threads take longer to stop than all the jobs.
    with started(commands, environ=environ, end=signal.SIGKILL) as workers:
        _await_consumers()
        yield System(
            submit=submit,
            unfinished=lambda: done.stat().st_size < submitted,
            succeeded=lambda: done.stat().st_size,
            processes={"workers": workers},
        )


def _await_consumers() -> None:
    deadline = time.monotonic() + 30
    with celery_peer.app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        while time.monotonic() < deadline:
            try:
                declared = channel.queue_declare(celery_peer.QUEUE, passive=True)
                if declared.consumer_count == WORKERS:
                    return
            except connection.channel_errors:
                channel = connection.channel()
            time.sleep(0.1)
    raise SystemExit("the Celery workers have not started")


@contextmanager
def started(
    commands: Sequence[Sequence[str]],
    ready: str = "",
    environ: Mapping[str, str] | None = None,
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[list[int]]:
    """Run processes during the block; yield their ids.

    With `ready`, wait until each has printed that text.
    """
    processes = [
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
        for process in processes:
            if process.stdout is not None and not any(ready in line for line in process.stdout):
                raise SystemExit(f"{process.args!r} has not started")
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.send_signal(end)
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
