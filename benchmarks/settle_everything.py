"""Settle and dispatch with everything on, against everything off: `settle --everything`.

Each session has failed and was retried once already, so that what is read of a chain's past is
there. The same services settle and dispatch the second attempts, in pairs of a side with nothing
and a side with all that can be switched on:

* the policy has `stop_after_same`, `retry_window`, `reset_on_progress` and `on_exhausted: park`;
* the run told its step and its checkpoint;
* sessions avoid suspect nodes, and their executor has one;
* the queue and the cluster have breakers, and those of two other failures are open;
* the cluster has a shared budget, which dispatch charges.

Signatures are always on: on both sides the report of the failure has 16 KiB of output, with the
traceback from which the signature comes.

`ratio_everything` is the rate with everything to the rate with nothing.
"""

from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any
from uuid import UUID

from retry.policies.shared_budget import MOST_BURST

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
Rate = Callable[[list[UUID], int, int, Any], float]
"""Settles and dispatches sessions in batches of a size, with a number of clients, after this end of
their runs: sessions per second without those that warm the clients up."""


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
                switch(everything)
                total = count + CLIENTS * warm_sessions(size)
                ids = second_attempts(running, total, size, everything=everything)
                rates[everything] = rate(ids, size, CLIENTS, _end(everything, 1))
            pairs.append(rates[True] / rates[False])
            print(
                f"{NAMES[size]:8} nothing {rates[False]:8.0f}/s   everything {rates[True]:8.0f}/s"
                f"   ratio {pairs[-1]:.3f}"
            )
        ratios[f"ratio_everything_{NAMES[size]}"] = round(median(pairs), 3)
    return {**ratios, "ratio_everything": min(ratios.values())}


def second_attempts(running: Running, count: int, size: int, *, everything: bool) -> list[UUID]:
    """Return running sessions that are the second attempts of their chains."""
    from django.db import connection

    from benchmarks.settle_client import dispatch_rest, settle

    first = running(count, size, EVERYTHING if everything else NOTHING)
    settle(first, 100, _end(everything, 0))
    dispatch_rest(100)
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING_AGAIN, [first])
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute("VACUUM ANALYZE sessions_app_session, sessions_app_retrydecision")
    if len(ids) != count:
        raise SystemExit(f"{len(ids)} second attempts were made of {count}")
    return ids


def _end(everything: bool, attempt: int) -> Any:
    from benchmarks.settle_client import END_WITH_OUTPUT, end_with_progress

    return end_with_progress(attempt) if everything else END_WITH_OUTPUT


def switch(on: bool) -> None:
    """Switch everything on or off that does not stand in a policy."""
    from sessions_app.models import Breaker, Queue, RetrySettings

    _suspect_node(on)
    breaker = {"chains": 20, "window": 600, "probe_after": 60} if on else None
    budget = {"ratio": 1.0, "burst": MOST_BURST} if on else None
    queue = Queue.objects.get(is_default=True)
    queue.breaker = breaker
    queue.save()
    RetrySettings.objects.update_or_create(
        domain=None, project=None, defaults={"breaker": breaker, "retry_budget": budget}
    )
    Breaker.objects.all().delete()
    if on:
        project, key = queue.project_id, f"queue:{queue.pk}"
        Breaker.objects.create(scope="cluster", signature="a" * 12, state="open")
        Breaker.objects.create(
            scope=key, project_id=project, queue=queue, signature="b" * 12, state="open"
        )


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
