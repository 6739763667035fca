"""Settle and dispatch against the floor: PostgreSQL's own time for the same rows.

Reprise: the real services settle failed sessions (end, event, decision with its trace) and dispatch
them (child, events, audit), from one or several processes, singly and in batches of 100. The floor:
pgbench writes the same rows with the same bytes in the same two transactions, by set-based,
prepared statements, on the same tables and indexes of the same server. Both sides count with their
best number of clients. Clients of both are connected before the clock, those of Reprise are warm,
and it ends with the last commit. Up to four clients are processes, more are threads in four, as web
processes have them. `single_at_32` is our rate singly with 32 clients to our best one.

With `--everything` it compares settle and dispatch with everything on to the same with everything
off instead, also apart: `settle_everything.py`.

    python -m benchmarks.settle [--quick] [--everything]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.checks import require_decided
from benchmarks.database import benchmark_database
from benchmarks.settle_everything import NOTHING, ratios_of_everything

FLOOR = Path(__file__).with_name("settle_floor.sql")
SESSIONS = {100: 10_000, 1: 1_000}
FLOOR_CLIENTS = (1, 4, 8, 32)
OUR_CLIENTS = (1, 2, 4, 8, 32)
QUICK_OUR_CLIENTS = {100: (2, 8), 1: (4, 32)}
MANY = 32
_TPS = re.compile(r"^tps = (\S+) \(without initial connection time\)", re.MULTILINE)


@dataclass(frozen=True)
class Rate:
    """Sessions per second with a number of clients."""

    clients: int
    rate: float


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition of each variant")
    parser.add_argument("--everything", action="store_true", help="with everything on and off")
    given = parser.parse_args()
    quick = given.quick
    ratios = {}
    if given.everything:
        print(json.dumps(ratios_of_everything(_make_tenants, _running_sessions, quick=quick)))
        return
    with benchmark_database("reprise_bench_settle") as url:
        _make_tenants()
        for size, name in ((100, "batched"), (1, "single")):
            floors, all_ours = _compare(url, size, repetitions=1 if quick else 3, quick=quick)
            floor, ours = _best(floors), _best(all_ours)
            if size == 1:
                at_many = _best([each for each in all_ours if each.clients == MANY])
                ratios[f"single_at_{MANY}"] = round(at_many.rate / ours.rate, 3)
            ratios[f"ratio_{name}"] = round(ours.rate / floor.rate, 3)
            print(
                f"{name:8} floor {floor.rate:8.0f}/s ({floor.clients} clients)   "
                f"settle + dispatch {ours.rate:8.0f}/s ({ours.clients} clients)   "
                f"ratio {ours.rate / floor.rate:.3f}"
            )
    print(json.dumps(ratios))


def _compare(
    url: str, size: int, *, repetitions: int, quick: bool
) -> tuple[list[Rate], list[Rate]]:
    """Return the rates of the floor and of Reprise, over all client counts and repetitions."""
    floor: list[Rate] = []
    ours: list[Rate] = []
    for _ in range(repetitions):
        for clients in QUICK_OUR_CLIENTS[size] if quick else OUR_CLIENTS:
            ours.append(Rate(clients, _measure_ours(url, size, clients)))
            _progress("ours", size, ours[-1])
        for clients in FLOOR_CLIENTS:
            floor.append(Rate(clients, _measure_floor(url, size, clients)))
            _progress("floor", size, floor[-1])
    return floor, ours


def _best(rates: list[Rate]) -> Rate:
    return max(rates, key=lambda found: found.rate)


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
        %(policy)s::jsonb, %(named)s::jsonb, '{}', '', '', 'none', '', '[]', 0, 1, 2, 4
    FROM bench_target t, sessions_app_project p, sessions_app_queue q, auth_user u
"""


def _running_sessions(
    count: int, batch: int, fields: dict[str, Any] = NOTHING, named: Sequence[str] = ()
) -> list[Any]:
    """Create running sessions with an inline policy and named ones. Return their ids.

    They have rows in `bench_target`, by batch.
    """
    from django.db import connection
    from uuid_utils.compat import uuid7

    from retry.policies.inline import InlinePolicy, dump_stored
    from sessions_app.models import SessionSpec

    policy = dump_stored(InlinePolicy(**fields))
    spec = SessionSpec.objects.create(id=uuid7(), request_digest="bench")
    ids = [uuid7() for _ in range(count)]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bench_target")
        with cursor.copy("COPY bench_target (id, child_id, batch) FROM STDIN") as copy:
            for position, session_id in enumerate(ids):
                copy.write_row((session_id, uuid7(), position // batch + 1))
        policies = {"policy": policy, "named": json.dumps(list(named))}
        cursor.execute(_RUNNING, {"spec": spec.pk, **policies})
        cursor.execute("ALTER SEQUENCE bench_batch RESTART")
        cursor.execute("VACUUM ANALYZE sessions_app_session, bench_target")
        cursor.execute("CHECKPOINT")
    return ids


def _measure_ours(url: str, size: int, clients: int) -> float:
    from django.db import connection

    from benchmarks.settle_client import warm_sessions
    from benchmarks.settle_workers import Workers

    ids = _running_sessions(SESSIONS[size] + clients * warm_sessions(size), size)
    with Workers(url, ids, size, clients, turns=1) as workers:
        with connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        rate = workers.turn().rate
    require_decided(ids)
    return rate


def _make_template() -> None:
    """Copy the bytes that Reprise wrote last into a table, for the floor to write."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_template")
        cursor.execute(
            "CREATE TABLE bench_template AS SELECT d.termination, t.steps, "
            + ", ".join(
                f"(SELECT data FROM sessions_app_sessionevent e WHERE e.session_id = "
                f"{'d.next_session_id' if name == 'submitted' else 'd.session_id'} "
                f"AND e.type = 'session.{name}' LIMIT 1) AS {name}"
                for name in ("error", "retry_scheduled", "retry_dispatched", "submitted")
            )
            + ", (SELECT data FROM sessions_app_automaticdispatch ORDER BY id DESC LIMIT 1) "
            "AS audit FROM sessions_app_retrydecision d JOIN sessions_app_retrytrace t "
            "ON t.session_id = d.session_id WHERE d.state = 'dispatched' LIMIT 1"
        )


def _measure_floor(url: str, size: int, clients: int) -> float:
    from sessions_app.models import Session

    _make_template()
    ids = _running_sessions(SESSIONS[size], size)
    before = Session.objects.count()
    transactions = len(ids) // size
    share = transactions // clients
    with tempfile.TemporaryDirectory() as directory:
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
    tps = _TPS.search(done.stdout)
    if done.returncode or tps is None:
        raise SystemExit(done.stderr)
    made = Session.objects.count() - before
    if made != share * clients * size:
        raise SystemExit(f"the floor made {made} children of {share * clients * size}")
    return size * float(tps[1])


def _pgbench() -> Path:
    """Return the pgbench beside the server's programs."""
    from reprise.standalone.postgres_binaries import directories

    for directory in directories():
        if (directory / "pgbench").exists():
            return directory / "pgbench"
    raise SystemExit("pgbench was not found beside any PostgreSQL server")


if __name__ == "__main__":
    main()
