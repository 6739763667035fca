"""Silence of executors: the health that follows from it, and a log line when it changes."""

import logging
import time
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q
from django.db.models.functions import Now

from scheduler.models import Executor, Lease
from sessions_app.locks import database_now
from sessions_app.selectors.executors_known import ExecutorsKnown, Silence

logger = logging.getLogger(__name__)

_began = time.monotonic()
"""When this process began."""


class Health(StrEnum):
    """The health of an executor, by the age of its heartbeat."""

    ALIVE = "alive"
    LATE = "late"
    SILENT = "silent"
    """Silent for so long that it counts as gone: nothing waits for it."""
    NEVER_HEARD = "never_heard"


def late_before(now: datetime) -> datetime:
    """Return the time before which a last heartbeat means `late`."""
    return now - timedelta(seconds=settings.REPRISE["executor_late_after"])


def silent_before(now: datetime) -> datetime:
    """Return the time before which a last heartbeat means `silent`."""
    return now - timedelta(seconds=settings.REPRISE["executor_stale_after"])


def health_of(last_seen_at: datetime | None, now: datetime) -> Health:
    """Return the health of an executor whose last heartbeat was at this time."""
    if last_seen_at is None:
        return Health.NEVER_HEARD
    if last_seen_at < silent_before(now):
        return Health.SILENT
    return Health.LATE if last_seen_at < late_before(now) else Health.ALIVE


def health_condition(health: Health, now: datetime) -> Q:
    """Return the condition for executors with this health."""
    late, silent = late_before(now), silent_before(now)
    return {
        Health.ALIVE: Q(last_seen_at__gte=max(late, silent)),
        Health.LATE: Q(last_seen_at__gte=silent, last_seen_at__lt=late),
        Health.SILENT: Q(last_seen_at__lt=silent),
        Health.NEVER_HEARD: Q(last_seen_at=None),
    }[health]


def executors_count() -> ExecutorsKnown:
    """Return how many executors are registered, and how many of them are not silent."""
    heard = Count("pk", filter=Q(last_seen_at__gte=silent_before(database_now())))
    return ExecutorsKnown(**Executor.objects.aggregate(registered=Count("pk"), heard=heard))


def silence_of(session_id: UUID) -> Silence | None:
    """Return the silence of the executor that has the session's lease; None if it is not late."""
    late = Now() - timedelta(seconds=settings.REPRISE["executor_late_after"])
    held = Lease.objects.filter(session_id=session_id, executor__last_seen_at__lt=late)
    found = held.select_related("executor").first()
    if found is None or found.executor.last_seen_at is None:
        return None
    return Silence(found.executor.name, found.executor.last_seen_at)


# Updates only executors whose lateness changed; of concurrent sweeps, one gets each row.
_TURNED = """
    UPDATE scheduler_executor
    SET warned_at = CASE WHEN warned_at IS NULL THEN clock_timestamp() END
    WHERE last_seen_at IS NOT NULL AND (warned_at IS NULL)
        = (last_seen_at < clock_timestamp() - make_interval(secs => %s))
    RETURNING name, warned_at IS NOT NULL, extract(epoch FROM clock_timestamp() - last_seen_at)
"""


def log_silence() -> int:
    """Log which executors became late, and which are heard again. Return their number.

    A process that has just begun logs nothing: nobody can call a server that does not run.
    """
    late_after = settings.REPRISE["executor_late_after"]
    if time.monotonic() - _began < late_after:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_TURNED, [late_after])
        turned = cursor.fetchall()
    for name, late, seconds in turned:
        if late:
            logger.warning("executor %s has been silent for %.0f s", name, seconds)
        else:
            logger.warning("executor %s sends heartbeats again", name)
    return len(turned)
