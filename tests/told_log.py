"""The log as its readers see it: behind every transaction that still writes.

Another transaction of the same server hides what was written after it began, in whatever database
it is. The server's own `ANALYZE` is one, for a moment.
"""

import time

from django.db import connection

from sessions_app.services.failures import count
from tests.waiting import LONGEST_PAUSE, PATIENCE_SECONDS

SECONDS = 5.0
"""Some tests hold a transaction open on purpose: they are not waited for any longer."""
_ALL_TOLD = """
    SELECT NOT EXISTS (SELECT FROM sessions_app_sessionevent e
        WHERE (e.epoch, e.xid) >= (reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot()))
            AND e.xid IS DISTINCT FROM pg_current_xact_id_if_assigned())
"""
# It comes to an end by itself, however slow the machine is.
_VACUUMS = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')"


def all_told() -> bool:
    """Return whether readers see all events but those of the own transaction."""
    return _is(_ALL_TOLD)


def await_all_told() -> None:
    """Wait for some seconds, or until autovacuum rests, until readers see all events."""
    began = time.monotonic()
    while not all_told() and (waited := time.monotonic() - began) < PATIENCE_SECONDS:
        if waited > SECONDS and not _is(_VACUUMS):
            return
        time.sleep(LONGEST_PAUSE / 10)


def _is(query: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(query)
        found: bool = cursor.fetchone()[0]
    return found


def failures_count() -> int:
    """Count failures, once all of them can be seen."""
    await_all_told()
    return count.failures_count()
