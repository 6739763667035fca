"""Settle and dispatch with everything on, against everything off: `settle --everything`.

Each session has failed and was retried once already, so that what is read of a chain's past is
there. The same services settle and dispatch the second attempts, in pairs of a side with nothing
and a side with all of it:

* the report of the failure has 16 KiB of output, with a traceback, from which the signature comes,
  and the step and the checkpoint that the attempt came to;
* the policy has `stop_after_same`, `retry_window`, `reset_on_progress` and `on_exhausted: park`;
* sessions avoid suspect nodes, and their executor has one.

`ratio_everything` is the rate with everything to the rate with nothing.

Breakers and shared budgets are not in it yet: `EVERYTHING` and `_suspect_node` are the places.
"""

from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any
from uuid import UUID

NOTHING: dict[str, Any] = {"max_retries": 3, "retry_delay": 0.001}
EVERYTHING: dict[str, Any] = {
    **NOTHING,
    "stop_after_same": 5,
    "retry_window": 86_400.0,
    "reset_on_progress": True,
    "on_exhausted": "park",
}
SIZES = {100: 4_000, 1: 400}
"""Sessions of a measurement, by the size of the batches."""
NAMES = {100: "batched", 1: "single"}
CLIENTS = 8
PAIRS, QUICK_PAIRS = 9, 2

_RUNNING_AGAIN = """
    UPDATE sessions_app_session SET status = 'RUNNING', phase = 'live', scheduled_at = now(),
        accepted_at = now(), started_at = now(), node = 'node-1', executor = 'executor-1',
        fencing_token = 1, report_seq = 2, event_seq = event_seq + 3
    WHERE parent_id = ANY(%s::uuid[]) RETURNING id
"""

Running = Callable[[int, int, dict[str, Any]], list[UUID]]
"""Creates running sessions: their number, the size of batches, and their policy."""
Rate = Callable[[list[UUID], int, int, bool], float]
"""Settles and dispatches sessions in batches of a size, with a number of clients, with everything
or with nothing: sessions per second without those that warm the clients up."""


def ratios_of_everything(running: Running, rate: Rate, *, quick: bool) -> dict[str, float]:
    """Return the median ratio of the pairs by size, and the smaller of them."""
    from benchmarks.settle_client import warm_sessions

    ratios: dict[str, float] = {}
    for size, count in SIZES.items():
        pairs = []
        for number in range(QUICK_PAIRS if quick else PAIRS):
            rates = {}
            # Which side is first alternates: the tables grow from measurement to measurement.
            for everything in (bool(number % 2), not number % 2):
                _suspect_node(everything)
                total = count + CLIENTS * warm_sessions(size)
                ids = _second_attempts(running, total, size, everything=everything)
                rates[everything] = rate(ids, size, CLIENTS, everything)
            pairs.append(rates[True] / rates[False])
            print(
                f"{NAMES[size]:8} nothing {rates[False]:8.0f}/s   everything {rates[True]:8.0f}/s"
                f"   ratio {pairs[-1]:.3f}"
            )
        ratios[f"ratio_everything_{NAMES[size]}"] = round(median(pairs), 3)
    return {**ratios, "ratio_everything": min(ratios.values())}


def _second_attempts(running: Running, count: int, size: int, *, everything: bool) -> list[UUID]:
    """Return running sessions that are the second attempts of their chains."""
    from django.db import connection

    from benchmarks.settle_client import dispatch_rest, settle

    first = running(count, size, EVERYTHING if everything else NOTHING)
    settle(first, 100, everything=everything, attempt=0)
    dispatch_rest(100)
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING_AGAIN, [first])
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute("VACUUM ANALYZE sessions_app_session, sessions_app_retrydecision")
    if len(ids) != count:
        raise SystemExit(f"{len(ids)} second attempts were made of {count}")
    return ids


def _suspect_node(there: bool) -> None:
    from django.utils import timezone

    from scheduler.models import Executor, Node

    avoids = "all" if there else "off"
    executor, _ = Executor.objects.update_or_create(
        name="executor-1", defaults={"avoid_suspects": avoids}
    )
    now = timezone.now()
    until = now + timedelta(hours=1) if there else None
    Node.objects.update_or_create(
        executor=executor,
        name="node-1",
        defaults={
            "address": "executor-1/node-1",
            "suspected_at": now,
            "suspected_until": until,
            "reason": "benchmark",
            "ratio": 9.0,
        },
    )
