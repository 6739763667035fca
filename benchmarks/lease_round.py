"""Lease rounds: the cost of leasing 500 sessions for different numbers of waiting ones.

With 10,000, 100,000 and 1,000,000 sessions waiting in 1, 100 and 1,000 queues, and a tenth as many
that wait for others, an executor asks for 500 of them, a few times one after the other. The oldest
tenth of each queue is large, in five sizes: on large nodes they are leased first, on small ones the
heads of all queues fit nowhere. The time is that of the whole round with its commit, and the best
of the rounds counts. `growth` is the worst ratio of the largest number of sessions to the smallest,
over all numbers of queues and both cases.

    python -m benchmarks.lease_round [--quick]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.bulk_load import loading
from benchmarks.database import benchmark_database

WAITING = (10_000, 100_000, 1_000_000)
QUEUES = (1, 100, 1_000)
LEASED = 500
BLOCKED = 0.1
"""Sessions that wait for others (`depends_on`), by those that wait in their queues."""
ROUNDS = 6
"""Rounds in each case; 10,000 sessions are enough for them."""
SMALL, LARGE = ("1",), ("20", "24", "28", "32", "36")
"""CPUs of a session."""
NODES = {"large": ("512", 400), "small": ("16", 400)}
"""CPUs of a node, and the number of nodes."""


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="skip the variants with 100,000 sessions and 100 queues",
    )
    quick = parser.parse_args().quick
    sizes = (WAITING[0], WAITING[-1]) if quick else WAITING
    growth = 0.0
    with benchmark_database("reprise_bench_lease_round"):
        specs = _make_records()
        for queues in (QUEUES[0], QUEUES[-1]) if quick else QUEUES:
            seconds = [_measure(specs, waiting, queues) for waiting in sizes]
            for nodes in NODES:
                ratio = seconds[-1][nodes] / seconds[0][nodes]
                growth = max(growth, ratio)
                columns = "   ".join(
                    f"{waiting:9,d}: {1000 * each[nodes]:6.1f} ms"
                    for waiting, each in zip(sizes, seconds, strict=True)
                )
                print(
                    f"{queues:5,d} queues, {nodes} nodes   {columns}   ratio {ratio:.2f}",
                    flush=True,
                )
    print(json.dumps({"growth": round(growth, 3)}))


class _Spec:
    """A specification, and the scheduling key of its sessions."""

    def __init__(self, spec_id: UUID, key: int):
        self.id, self.key = str(spec_id), key


def _make_records() -> dict[str, list[_Spec]]:
    from django.contrib.auth.models import User
    from django.db import connection
    from uuid_utils.compat import uuid7

    from scheduler.models import Executor
    from sessions_app.core.scheduling_key import scheduling_key_sql
    from sessions_app.models import Domain, Project, Queue, SessionSpec

    User.objects.create(username="bench")
    project = Project.objects.create(domain=Domain.objects.create(name="bench"), name="bench")
    Queue.objects.bulk_create(
        Queue(project=project, name=f"queue-{n}", is_default=n == 0) for n in range(QUEUES[-1])
    )
    Executor.objects.bulk_create(Executor(name=name, max_sessions=100_000) for name in NODES)
    key = scheduling_key_sql(
        resources="c.resources", pods="c.cluster_size", pod_spec="c.pod_spec", retry="false"
    )
    made: dict[str, list[_Spec]] = {}
    for kind, sizes in (("small", SMALL), ("large", LARGE)):
        made[kind] = []
        for cpus in sizes:
            spec = SessionSpec.objects.create(
                id=uuid7(), resources={"cpu": cpus}, image="bench", command=["true"]
            )
            with connection.cursor() as cursor:
                query = f"SELECT {key} FROM sessions_app_sessionspec c WHERE c.id = %s"
                cursor.execute(query, [spec.pk])
                made[kind].append(_Spec(spec.pk, cursor.fetchone()[0]))
    return made


_COLUMNS = (
    "id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type, "
    "priority, status, phase, status_message, created_at, node, executor, root_id, "
    "root_submitted_at, tip, retry_count, max_retries, retry_policy, retry_policies, "
    "retry_counters, retry_cause, failure_category, retry_state, avoid_node, avoid_executors, "
    "lease_returns, report_seq, event_seq, scheduling_key"
)


def _measure(specs: dict[str, list[_Spec]], waiting: int, queues: int) -> dict[str, float]:
    """Return the seconds of the best round, by the size of the nodes."""
    began = time.perf_counter()
    blocks = _rows(specs, waiting, queues)
    first = next(blocks)  # this reads the database, before the copy takes the connection
    with loading("sessions_app_session", _COLUMNS, beside="sessions_app_sessionevent") as copy:
        copy.write(first)
        for block in blocks:
            copy.write(block)
    loaded = time.perf_counter() - began
    print(f"  {waiting} sessions in {queues} queues: {loaded:.1f} s to load", file=sys.stderr)
    return {nodes: min(_rounds(nodes)) for nodes in NODES}


def _rows(specs: dict[str, list[_Spec]], waiting: int, queues: int) -> Iterator[bytes]:
    """Yield the text of COPY, in blocks."""
    from django.contrib.auth.models import User

    from sessions_app.models import Project, Queue

    project, owner = Project.objects.get().pk, User.objects.get().pk
    places = list(Queue.objects.order_by("pk").values_list("pk", flat=True)[:queues])
    policy = json.dumps({"max_retries": 3})
    start = datetime.now(UTC) - timedelta(days=2)
    seconds = [(start + timedelta(seconds=each)).isoformat(" ") for each in range(waiting // 100)]
    ends = {
        spec.key: f"\tt\t0\t3\t{policy}\t[]\t{{}}\t\t\tnone\t\t[]\t0\t0\t1\t{spec.key}\n"
        for kind in specs.values()
        for spec in kind
    }
    lines: list[str] = []
    for number in range(waiting + round(BLOCKED * waiting)):
        # Those that wait for others are as old as the first ones of each queue, and alike.
        phase = "waiting" if number < waiting else "blocked"
        kind = specs["large" if number % waiting < waiting // 10 else "small"]
        # Each queue has the same kinds, however many sessions there are.
        spec = kind[(number % queues + (number // queues if queues < 1_000 else 0)) % len(kind)]
        # Ids grow, like those of sessions created one after the other.
        session = f"{0x0190_0000 + (number >> 16):08x}-{number & 0xFFFF:04x}-7000-8000-000000000000"
        place, at = places[number % queues], seconds[number % waiting // 100]
        lines.append(
            f"{session}\t{spec.id}\t{project}\t{place}\t{owner}\tbench\t\t{number}\tbatch\t0\t"
            f"PENDING\t{phase}\t\t{at}\t\t\t{session}\t{at}{ends[spec.key]}"
        )
        if len(lines) == 10_000:
            yield "".join(lines).encode()
            lines.clear()
    yield "".join(lines).encode()


def _rounds(nodes: str) -> Iterator[float]:
    from django.utils import timezone

    from scheduler.models import Executor
    from scheduler.services.leases import lease_round

    cpus, count = NODES[nodes]
    nodes_json: list[dict[str, Any]] = [
        {"name": f"{nodes}-{n}", "allocatable": {"cpu": cpus, "memory": "64Gi"}}
        for n in range(count)
    ]
    Executor.objects.filter(name=nodes).update(nodes=nodes_json, last_seen_at=timezone.now())
    for _ in range(ROUNDS):
        began = time.perf_counter()
        leases = lease_round(nodes, 0).leases
        yield time.perf_counter() - began
        if len(leases) != LEASED:
            raise SystemExit(f"{len(leases)} sessions were leased, not {LEASED}")


if __name__ == "__main__":
    main()
