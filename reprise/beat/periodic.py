"""The periodic tasks: rows of django-celery-beat, so that operators see and change them."""

import logging
import threading
from collections import defaultdict
from typing import Any

from django.db import DatabaseError, connection

from sessions_app.audit.context import audited

MIGRATE = "manage.py migrate"
logger = logging.getLogger(__name__)

SWEEPS = {
    "sweep due retries": ("sessions_app.tasks.sweep_retries", 15, "retry"),
    "expire leases": ("scheduler.tasks.sweep_leases", 10, "maintenance"),
    "verify starts": ("scheduler.tasks.verify_starts", 15, "verification"),
    "decay queue usage": ("scheduler.tasks.decay_queue_usage", 15, "maintenance"),
    "delete leases that no longer count": (
        "scheduler.tasks.sweep_orphaned_leases",
        60,
        "maintenance",
    ),
    "collect parked tasks": ("reprise.tasks.collect_parked", 60, "maintenance"),
    "count usage of quotas": ("sessions_app.tasks.rebuild_usage", 86_400, "maintenance"),
    "archive and delete what is old": ("reprise.tasks.prune_ended", 60, "maintenance"),
    "fire schedules": ("sessions_app.tasks.fire_schedules", 15, "retry"),
    "deliver webhooks": ("sessions_app.tasks.sweep_webhooks", 15, "webhooks"),
    "count failures": ("sessions_app.tasks.count_failures", 5, "maintenance"),
    "make room by preemption": ("scheduler.tasks.make_room", 10, "maintenance"),
    "watch nodes": ("scheduler.tasks.watch_nodes", 5, "maintenance"),
    "advise about retries": ("sessions_app.tasks.advise_retries", 3_600, "maintenance"),
    "metrics snapshot": ("reprise.tasks.count_events", 60, "maintenance"),
}
"""Periodic tasks: name -> task, seconds between runs, queue."""

DEADLINES = frozenset(
    SWEEPS[name][0]
    for name in ("sweep due retries", "expire leases", "verify starts", "count failures")
)
"""Tasks that retries and leases depend on: if no worker runs them, beat does (`standby.py`)."""

SAME_SECONDS = 29.0
TEXT_LENGTH = 2_000
_TAKEN = """
    INSERT INTO reprise_sweepstart (task, taken_at) VALUES (%s, clock_timestamp())
    ON CONFLICT (task) DO UPDATE SET taken_at = clock_timestamp()
"""
_RECORD = """
    INSERT INTO reprise_periodicrun
        (name, started_at, duration, result, error, runs, failures)
    VALUES (%(name)s, to_timestamp(%(began)s), %(seconds)s, %(result)s, %(error)s, %(runs)s,
        %(failed)s)
    ON CONFLICT (name) DO UPDATE SET
        started_at = excluded.started_at, duration = excluded.duration,
        result = excluded.result, error = excluded.error,
        runs = reprise_periodicrun.runs + excluded.runs,
        failures = reprise_periodicrun.failures + excluded.failures
"""


class RunLog:
    """Records the runs of periodic tasks of this process.

    A run with the same result as the one before is written at most every `SAME_SECONDS`, with the
    number of skipped runs, so that an idle server writes little.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[str, tuple[float, str, str]] = {}
        self._passed_over: dict[str, int] = defaultdict(int)

    def record(
        self, name: str, began: float, seconds: float, *, result: str = "", error: str = ""
    ) -> None:
        """Record a run that began at `began` (seconds since the epoch) and took `seconds`."""
        with self._lock:
            at, *last = self._written.get(name, (float("-inf"), "", ""))
            if not error and last == [result, error] and began < at + SAME_SECONDS:
                self._passed_over[name] += 1
                return
            self._written[name] = (began, result, error)
            runs = 1 + self._passed_over.pop(name, 0)
        values: dict[str, str | float] = {
            "name": name,
            "began": began,
            "seconds": seconds,
            "result": _storable(result),
            "error": _storable(error),
            "runs": runs,
            "failed": int(bool(error)),
        }
        try:
            with connection.cursor() as cursor:
                cursor.execute(_RECORD, values)
        except DatabaseError as failure:
            # A failure to record does not change the result of the run.
            logger.warning("cannot record the run of %r: %s", name, failure)


run_log = RunLog()


def sweep_taken(task: str) -> None:
    """Record that a worker has begun a task, if it is one of `DEADLINES`; beat reads this."""
    if task not in DEADLINES:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(_TAKEN, [task])
    except DatabaseError as failure:
        # Beat then runs the task, too, which is harmless.
        logger.warning("cannot record the start of %r: %s", task, failure)


def _storable(text: str) -> str:
    return text.replace("\0", "")[:TEXT_LENGTH]


def ensure_periodic_tasks(**_kwargs: Any) -> None:
    """Create the rows that are missing; existing rows belong to the operators."""
    from django_celery_beat.models import (  # noqa: PLC0415  # needs the registry
        IntervalSchedule,
        PeriodicTask,
    )

    known = set(PeriodicTask.objects.filter(name__in=SWEEPS).values_list("name", flat=True))
    missing = {name: sweep for name, sweep in SWEEPS.items() if name not in known}
    with audited(by=MIGRATE):
        for name, (task, seconds, queue) in missing.items():
            every, _ = IntervalSchedule.objects.get_or_create(
                every=seconds, period=IntervalSchedule.SECONDS
            )
            # Beat's messages expire after one interval, so that none pile up while workers are
            # down.
            PeriodicTask.objects.create(name=name, task=task, interval=every, queue=queue)
