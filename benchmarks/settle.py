"""Settle and dispatch against the floor: PostgreSQL's own time for the same rows.

Reprise: the real services settle failed sessions (end, event, decision with its trace) and dispatch
them (child, events, audit), from one or several processes, singly and in batches of 100. The floor:
pgbench writes the same rows with the same bytes in the same two transactions, by set-based,
prepared statements, on the same tables and indexes of the same server. Both sides count with their
best number of clients.

    python -m benchmarks.settle [--quick]
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database

FLOOR = Path(__file__).with_name("settle_floor.sql")
SESSIONS = {100: 10_000, 1: 1_000}
FLOOR_CLIENTS = (1, 8, 32)
OUR_CLIENTS = (1, 2, 8, 32)
QUICK_OUR_CLIENTS = (2, 8)


@dataclass(frozen=True)
class Rate:
    """Sessions per second with a number of clients."""

    clients: int
    rate: float


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition of each variant")
    quick = parser.parse_args().quick
    ratios = {}
    with benchmark_database("reprise_bench_settle") as url:
        _make_tenants()
        for size, name in ((100, "batched"), (1, "single")):
            floor, ours = _compare(url, size, repetitions=1 if quick else 3, quick=quick)
            ratios[f"ratio_{name}"] = round(ours.rate / floor.rate, 3)
            print(
                f"{name:8} floor {floor.rate:8.0f}/s ({floor.clients} clients)   "
                f"settle + dispatch {ours.rate:8.0f}/s ({ours.clients} clients)   "
                f"ratio {ours.rate / floor.rate:.3f}"
            )
    print(json.dumps(ratios))


def _compare(url: str, size: int, *, repetitions: int, quick: bool) -> tuple[Rate, Rate]:
    """Return the best rates of the floor and of Reprise, over all client counts and repetitions."""
    floor: list[Rate] = []
    ours: list[Rate] = []
    for _ in range(repetitions):
        for clients in QUICK_OUR_CLIENTS if quick else OUR_CLIENTS:
            ours.append(Rate(clients, _measure_ours(url, size, clients)))
            _progress("ours", size, ours[-1])
        for clients in FLOOR_CLIENTS:
            floor.append(Rate(clients, _measure_floor(url, size, clients)))
            _progress("floor", size, floor[-1])
    return max(floor, key=lambda found: found.rate), max(ours, key=lambda found: found.rate)


def _progress(side: str, size: int, found: Rate) -> None:
    print(
        f"  {side:5} batches of {size:3}: {found.rate:8.0f}/s",
        f"{found.clients} clients",
        file=sys.stderr,
    )


def _make_tenants() -> None:
    from django.contrib.auth.models import User
    from django.db import connection

    from sessions_app.models import Domain, Project, Queue

    User.objects.create(username="bench")
    domain = Domain.objects.create(name="bench")
    project = Project.objects.create(domain=domain, name="bench")
    Queue.objects.create(project=project, name="default", is_default=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bench_target (id uuid PRIMARY KEY, child_id uuid, batch int, run int)"
        )
        cursor.execute("CREATE INDEX ON bench_target (batch)")
        cursor.execute("CREATE SEQUENCE bench_batch")


_RUNNING = """
    INSERT INTO sessions_app_session
        (id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type,
         priority, status, phase, status_message, created_at, scheduled_at, accepted_at, started_at,
         node, executor, root_id, root_submitted_at, tip, retry_count, max_retries, retry_policy,
         retry_policies, retry_counters, retry_cause, failure_category, retry_state, avoid_node,
         avoid_executors, lease_returns, fencing_token, report_seq, event_seq)
    SELECT t.id, %(spec)s, p.id, q.id, u.id, 'bench', 'bench', t.id::text, 'batch', 0, 'RUNNING',
        'live', '', now(), now(), now(), now(), 'node-1', 'executor-1', t.id, now(), true, 0, 3,
        %(policy)s::jsonb, '[]', '{}', '', '', 'none', '', '[]', 0, 1, 2, 4
    FROM bench_target t, sessions_app_project p, sessions_app_queue q, auth_user u
"""


def _running_sessions(count: int, batch: int) -> list[Any]:
    """Create running sessions, with rows in `bench_target` by batch. Return their ids."""
    from django.db import connection
    from uuid_utils.compat import uuid7

    from retry.policies.inline import InlinePolicy
    from sessions_app.models import SessionSpec

    policy = InlinePolicy(max_retries=3, retry_delay=0.001).model_dump(mode="json")
    spec = SessionSpec.objects.create(id=uuid7(), request_digest="bench")
    ids = [uuid7() for _ in range(count)]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bench_target")
        with cursor.copy("COPY bench_target (id, child_id, batch) FROM STDIN") as copy:
            for position, session_id in enumerate(ids):
                copy.write_row((session_id, uuid7(), position // batch + 1))
        cursor.execute(_RUNNING, {"spec": spec.pk, "policy": json.dumps(policy)})
        cursor.execute("ALTER SEQUENCE bench_batch RESTART")
        cursor.execute("VACUUM ANALYZE sessions_app_session, bench_target")
        cursor.execute("CHECKPOINT")
    return ids


def _measure_ours(url: str, size: int, clients: int) -> float:
    from sessions_app.models import Session

    ids = _running_sessions(SESSIONS[size], size)
    before = Session.objects.count()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(clients + 1)
    shares = [ids[start::clients] for start in range(clients)]
    workers = [
        context.Process(target=_client, args=(url, share, size, barrier)) for share in shares
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    made = Session.objects.count() - before
    if made != len(ids):
        raise SystemExit(f"{made} children of {len(ids)} failed sessions")
    return len(ids) / seconds


def _client(url: str, ids: list[Any], size: int, barrier: Any) -> None:
    import django

    django.setup()
    from reprise.standalone.server import use_database

    use_database(url)
    from django.db import connection

    from retry.evidence.termination import Termination
    from sessions_app.services.chains.dispatch import retries_dispatch
    from sessions_app.services.chains.settle import End, sessions_settle

    connection.ensure_connection()
    end = End(Termination(exit_code=3, message="boom", node="node-1"), columns={"report_seq": 3})
    barrier.wait()
    for start in range(0, len(ids), size):
        sessions_settle(dict.fromkeys(ids[start : start + size], end))
        retries_dispatch(size)
    while retries_dispatch(size).claimed:
        pass
    # The last retries may be due in a millisecond.
    time.sleep(0.002)
    while retries_dispatch(size).claimed:
        pass


def _make_template() -> None:
    """Copy the bytes that Reprise wrote last into a table, for the floor to write."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_template")
        cursor.execute(
            "CREATE TABLE bench_template AS SELECT d.termination, d.trace, "
            + ", ".join(
                f"(SELECT data FROM sessions_app_sessionevent e WHERE e.session_id = "
                f"{'d.next_session_id' if name == 'submitted' else 'd.session_id'} "
                f"AND e.type = 'session.{name}' LIMIT 1) AS {name}"
                for name in ("error", "retry_scheduled", "retry_dispatched", "submitted")
            )
            + ", (SELECT data FROM sessions_app_automaticdispatch ORDER BY id DESC LIMIT 1) "
            "AS audit FROM sessions_app_retrydecision d WHERE state = 'dispatched' LIMIT 1"
        )


def _measure_floor(url: str, size: int, clients: int) -> float:
    from sessions_app.models import Session

    _make_template()
    ids = _running_sessions(SESSIONS[size], size)
    before = Session.objects.count()
    transactions = len(ids) // size
    share = transactions // clients
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        done = subprocess.run(
            [
                *(str(_pgbench()), "-n", "-M", "prepared", "-f", str(FLOOR)),
                *("-c", str(clients), "-j", str(min(clients, 2)), "-t", str(share), url),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=directory,
        )
        seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    made = Session.objects.count() - before
    if made != share * clients * size:
        raise SystemExit(f"the floor made {made} children of {share * clients * size}")
    return made / seconds


def _pgbench() -> Path:
    """Return the pgbench beside the server's programs."""
    from reprise.standalone.postgres_binaries import directories

    for directory in directories():
        if (directory / "pgbench").exists():
            return directory / "pgbench"
    raise SystemExit("pgbench was not found beside any PostgreSQL server")


if __name__ == "__main__":
    main()
