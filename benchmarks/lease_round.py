"""Lease rounds: what leasing 500 sessions costs, however many wait.

With 10,000, 100,000 and 1,000,000 sessions waiting in 1, 100 and 1,000 queues, an executor asks for
500 of them, again and again. In the second case of each the sessions at the head of every queue, a
tenth of all, fit on no node. The time is that of the whole round: what it reads, divides, locks and
writes. Each number is the best of its repetitions; `growth` is the worst ratio of the largest to the
smallest number of sessions, over all numbers of queues and both cases.

    python -m benchmarks.lease_round [--quick]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database

WAITING = (10_000, 100_000, 1_000_000)
QUEUES = (1, 100, 1_000)
LEASED = 500
QUICK_ROUNDS, ROUNDS = 5, 15
LARGE_SHARE = 10
"""Every tenth session is one of the large ones at the head of its queue."""


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, not 100,000 sessions")
    quick = parser.parse_args().quick
    sizes = (WAITING[0], WAITING[-1]) if quick else WAITING
    seconds: dict[tuple[int, int, bool], float] = {}
    with benchmark_database("reprise_bench_lease_round") as _:
        _make_tenants()
        for waiting in sizes:
            began = time.perf_counter()
            _make_sessions(waiting)
            print(f"  {waiting} sessions in {time.perf_counter() - began:.0f} s", file=sys.stderr)
            for queues in QUEUES:
                _spread(waiting, queues)
