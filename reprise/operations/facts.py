"""The facts of which problems are made, each read in one statement of bounded cost."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Count as Counted
from django.db.models import Min

from reprise.models import Heartbeat, ParkedState, ParkedTask
from reprise.operations.problems import SHOWN
from reprise.selectors import with_last_runs
from sessions_app.selectors.counts import CAP, Count

_OLDEST = """
    SELECT s.id FROM sessions_app_project p CROSS JOIN LATERAL (
        SELECT id FROM sessions_app_session
        WHERE project_id = p.id AND phase = 'waiting' ORDER BY id NULLS FIRST LIMIT 1) s
    ORDER BY s.id LIMIT 1
"""
_DEADLINES = """
    SELECT
        (SELECT min(due_at) FROM sessions_app_retrydecision WHERE state = 'scheduled'),
        (SELECT count(*) FROM (SELECT FROM sessions_app_retrydecision
            WHERE state = 'scheduled' AND due_at < clock_timestamp() LIMIT %(limit)s) AS due),
        (SELECT min(verify_at) FROM scheduler_lease WHERE verify_at IS NOT NULL),
        (SELECT min(h.due_at)
            FROM sessions_app_webhookendpoint w CROSS JOIN LATERAL (
                SELECT due_at FROM sessions_app_webhookdelivery
                WHERE endpoint_id = w.id AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS h
            WHERE w.paused_at IS NULL)
"""
# Slots of the minutes to come: retries that a storm limit postpones. Each has one of the cluster,
# one of its queue, or both, by the limits that there are.
_PARKED = """
    SELECT count(*), min(decided_at) FROM (
        SELECT decided_at FROM sessions_app_retrydecision
        WHERE state = 'held' AND held_for = 'parked' ORDER BY due_at LIMIT %(limit)s) AS parked
"""
_STORM = """
    SELECT max(minute), greatest(sum(taken) FILTER (WHERE queue_id IS NULL),
        sum(taken) FILTER (WHERE queue_id IS NOT NULL)), count(DISTINCT queue_id)
    FROM sessions_app_retryslots
    WHERE minute > date_trunc('minute', clock_timestamp())
"""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The oldest thing that is due, of each kind; None if none waits."""

    retry: datetime | None
    retries_due: Count
    start: datetime | None
    delivery: datetime | None


@dataclass(frozen=True, slots=True)
class Storm:
    """Retries that the storm limits postponed: until when, how many, of how many queues."""

    until: datetime
    postponed: int
    queues: int


@dataclass(frozen=True, slots=True)
class Parked:
    """The parked tasks of one name."""

    name: str
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Periodic:
    """A periodic task and its last run."""

    name: str
    task: str
    enabled: bool
    every: timedelta | None
    """None if it does not run at intervals."""
    last_run: datetime | None
    error: str


def parked_chains() -> tuple[Count, datetime | None]:
    """Return the number of parked chains, and since when the first of them has been parked."""
    with connection.cursor() as cursor:
        cursor.execute(_PARKED, {"limit": CAP + 1})
        found, since = cursor.fetchone()
    return Count(min(found, CAP), found > CAP), since


def oldest_waiting() -> UUID | None:
    """Return the id of the session that waits for an executor the longest."""
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST)
        found = cursor.fetchone()
    return None if found is None else found[0]


def deadlines() -> Deadlines:
    """Return what is due."""
    with connection.cursor() as cursor:
        cursor.execute(_DEADLINES, {"limit": CAP + 1})
        retry, due, start, delivery = cursor.fetchone()
    return Deadlines(retry, Count(min(due, CAP), due > CAP), start, delivery)


def storm() -> Storm | None:
    """Return the storm that the limits flatten now, if there is one."""
    with connection.cursor() as cursor:
        cursor.execute(_STORM)
        until, postponed, queues = cursor.fetchone()
    return Storm(until, int(postponed), queues) if postponed else None


def heartbeats(since: datetime) -> list[Heartbeat]:
    """Return the workers and beats that were heard since, or are still said to live."""
    rows = Heartbeat.objects.filter(part__in=("worker", "beat"), seen_at__gte=since)
    return list(rows.order_by("-seen_at")[: 10 * SHOWN])


def parked() -> list[Parked]:
    """Return the tasks that are parked, by name, most first."""
    rows = ParkedTask.objects.filter(state=ParkedState.PARKED).values("name")
    found = rows.annotate(count=Counted("pk"), since=Min("parked_at")).order_by("-count", "name")
    return [Parked(**row) for row in found[:SHOWN]]


def periodic() -> list[Periodic]:
    """Return the periodic tasks with their last runs."""
    from django_celery_beat.models import PeriodicTask  # noqa: PLC0415  # needs the registry

    rows = with_last_runs(PeriodicTask.objects.select_related("interval").order_by("name"))
    return [
        Periodic(
            name=row.name,
            task=row.task,
            enabled=row.enabled,
            every=row.interval.schedule.run_every if row.interval else None,
            last_run=row.run_started_at,
            error=row.run_error or "",
        )
        for row in rows[:200]
    ]
