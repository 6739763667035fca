"""Lists of failures and reports of retries over a month: with 1,000,000 sessions, and with 100,000.

There are two databases, with the figures that the one task would have counted of so many sessions:
half of them failed, with one of 2,000 signatures, on 400 nodes, with 40 images in 6 queues. Each
call is made as the doors make it, but without them. The least CPU time counts, of this process and
of PostgreSQL, since other programs on the machine make a call slower, never faster; PostgreSQL has
to run on the same machine. `pages` are the pages of PostgreSQL that a call reads.
`failures_growth` and `reports_growth` are the worst ratio of large to small, `sparkline_growth` is
that of the pages read for sparklines, and `failures_ms` and `reports_ms` are the most CPU time of a
call with the large number.

    python -m benchmarks.failures [--quick]
"""

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database
from benchmarks.failure_history import make_up_failures

SIZES, QUICK_SIZES = (100_000, 1_000_000), (50_000, 250_000)
REPEATS, QUICK_REPEATS = 15, 3
SIGNATURES, NODES = 2_000, 400
PAGE = 50
NOW = datetime.now(UTC)
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
MONTH = timedelta(days=30)


@dataclass(frozen=True)
class Call:
    """A call: what its line in the table says, and what it asks for."""

    kind: str
    label: str
    asked: Mapping[str, Any] = field(hash=False)
    offset: int = 0

    def rows(self, projects: list[int]) -> int:
        """Make the call. Return the number of rows."""
        from sessions_app.selectors.failures import FailuresWanted, failures_listed
        from sessions_app.selectors.reports import ReportWanted, retry_report

        if self.kind == "reports":
            return len(retry_report(projects, ReportWanted.of(NOW, **self.asked)).rows)
        wanted = FailuresWanted.of(NOW, **self.asked)
        return len(failures_listed(projects, wanted, offset=self.offset, limit=PAGE + 1))


def calls(*, quick: bool) -> Iterator[Call]:
    """Yield the calls."""
    month = {"since": NOW - MONTH}
    for order in ("sessions",) if quick else _orders():
        yield Call("failures", f"by {order}", {**month, "ordering": f"-{order}"})
    yield Call("failures", "fewest first", {**month, "ordering": "sessions"})
    yield Call("failures", "page 11", month, 10 * PAGE)
    for name, value in (
        *(("queue", "queue-0"), ("image", "image-0"), ("node", "node-0")),
        *(("cause", "oom_killed"), ("muted", False), ("key", f"{1:012x}")),
    ):
        yield Call("failures", f"{name}={value}", {**month, name: value})
    for label, since, until in (
        ("a day", NOW - timedelta(days=1), NOW),
        ("a week", NOW - timedelta(days=7), NOW),
        ("whole days", MIDNIGHT - MONTH, MIDNIGHT),
        ("until noon of a day before", MIDNIGHT - timedelta(days=28.8), MIDNIGHT - timedelta(0.5)),
    ):
        yield Call("failures", label, {"since": since, "until": until})
    for by in ("cause", "signature") if quick else _groups():
        yield Call("reports", f"by {by}", {"by": by})
    yield Call("reports", "by day, node=node-0", {"by": "day", "node": "node-0"})
    yield Call("reports", "by image, image=image-0", {"by": "image", "image": "image-0"})


def _orders() -> tuple[str, ...]:
    from sessions_app.selectors.failures import ORDERS

    return ORDERS


def _groups() -> tuple[str, ...]:
    from sessions_app.selectors.reports import GROUPS

    return GROUPS


@dataclass(frozen=True)
class Cost:
    """The cost of a call: the least CPU time in milliseconds, and the pages of each statement."""

    ms: float
    pages: list[int]
    rows: int

    @property
    def sparkline(self) -> int:
        """Return the pages that the sparklines of a list took, the last but one of its parts."""
        return self.pages[-2]


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sessions, calls and repeats")
    quick = parser.parse_args().quick
    small, large = (_costs(size, quick=quick) for size in (QUICK_SIZES if quick else SIZES))
    print("call                                    rows   CPU, small and large   ratio   pages")
    worst: dict[str, float] = defaultdict(float)
    for call, most in large.items():
        least = small[call]
        ratio = most.ms / least.ms
        worst[f"{call.kind}_growth"] = max(worst[f"{call.kind}_growth"], ratio)
        worst[f"{call.kind}_ms"] = max(worst[f"{call.kind}_ms"], most.ms)
        if call.kind == "failures":
            grown = most.sparkline / least.sparkline
            worst["sparkline_growth"] = max(worst["sparkline_growth"], grown)
        label = f"{call.kind} {call.label}"
        print(
            f"{label:40.40}{most.rows:4} {least.ms:9.1f} {most.ms:9.1f} ms {ratio:7.2f}"
            f"   {least.pages} {most.pages}"
        )
    print(json.dumps({name: round(value, 2) for name, value in sorted(worst.items())}))


def _costs(sessions: int, *, quick: bool) -> dict[Call, Cost]:
    """Make up the figures of so many sessions. Return what each call takes."""
    with benchmark_database("reprise_bench_failures"):
        from django.db import connection

        from sessions_app.models import Domain, Project

        began = time.perf_counter()
        project = Project.objects.create(domain=Domain.objects.create(name="bench"), name="bench")
        make_up_failures(project.pk, sessions // 2, signatures=SIGNATURES, nodes=NODES)
        print(f"  {sessions} sessions: {time.perf_counter() - began:.1f} s", file=sys.stderr)
        with connection.cursor() as cursor:
            # Workers would hide a part of the CPU time.
            cursor.execute("SET max_parallel_workers_per_gather = 0")
            cursor.execute("SELECT pg_backend_pid()")
            (backend,) = cursor.fetchone()
        repeats = QUICK_REPEATS if quick else REPEATS
        return {call: _cost(call, project.pk, backend, repeats) for call in calls(quick=quick)}


def _cost(call: Call, project: int, backend: int, repeats: int) -> Cost:
    rows = call.rows([project])
    with pages_counted() as pages:
        call.rows([project])
    taken = []
    for _ in range(repeats):
        before = _cpu_seconds(backend)
        call.rows([project])
        taken.append(_cpu_seconds(backend) - before)
    return Cost(min(taken) * 1000, pages, rows)


def _cpu_seconds(backend: int) -> float:
    """Return the CPU time of this process and of the process that serves its connection."""
    nanoseconds = Path(f"/proc/{backend}/schedstat").read_text().split()[0]
    return time.process_time() + int(nanoseconds) / 1e9


@contextmanager
def pages_counted() -> Iterator[list[int]]:
    """Count the pages that statements read: yield a list to which each adds its number."""
    from django.db import connection

    found: list[int] = []

    def explained(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", *more)
        plan = more[-1]["cursor"].fetchone()[0][0]["Plan"]
        found.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return execute(sql, *more)

    with connection.execute_wrapper(explained):
        yield found


if __name__ == "__main__":
    main()
