"""The figures of days that are over: the sums of their hours, so that long lists read less.

A day is summed once, by the task that deletes what is old. The position of the failures says up to
which day. What is counted later for such a day is added to both.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from django.db import connection

from sessions_app.db.bulk import columns
from sessions_app.db.steps import atomic_step
from sessions_app.locks import lock_failures
from sessions_app.services.failures.figures import Added, Place

_DAY = timedelta(days=1)
_NEXT = """
    SELECT coalesce(r.days_before, (
        SELECT (h.hour AT TIME ZONE 'UTC')::date FROM sessions_app_failurehour h
        ORDER BY h.hour LIMIT 1), %s)
    FROM sessions_app_failurereader r WHERE r.id = 1
"""
_SUM = """
    INSERT INTO sessions_app_failureday (project_id, dimension, value, day, key, sessions, chains,
        recovered_chains, lost_run_seconds)
    SELECT project_id, dimension, value, %(day)s, key, sum(sessions), sum(chains),
        sum(recovered_chains), sum(lost_run_seconds)
    FROM sessions_app_failurehour
    WHERE hour >= %(day)s::date::timestamp AT TIME ZONE 'UTC'
        AND hour < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1, 2, 3, 5 ORDER BY 1, 2, 3, 5
"""
_SUMMED = "UPDATE sessions_app_failurereader SET days_before = %s WHERE id = 1"
ADD = """
    INSERT INTO sessions_app_failure{period} AS f
        (project_id, dimension, value, {period}, key, sessions, chains, recovered_chains,
         lost_run_seconds)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::{type}[], %s::text[],
        %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[])
    ON CONFLICT (project_id, dimension, value, {period}, key) DO UPDATE SET
        sessions = f.sessions + excluded.sessions,
        chains = f.chains + excluded.chains,
        recovered_chains = f.recovered_chains + excluded.recovered_chains,
        lost_run_seconds = f.lost_run_seconds + excluded.lost_run_seconds
"""
"""SQL that adds figures to those of hours or days, by the name of the period and its type."""
_ADD_DAYS = ADD.format(period="day", type="date")
_FORGET = """
    DELETE FROM sessions_app_failureday WHERE id IN (
        SELECT id FROM sessions_app_failureday WHERE day < %s ORDER BY day LIMIT %s)
"""


def day_sum(today: date) -> int:
    """Sum the hours of the next day before `today`. Return the number of days summed: 1, or 0."""
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [today])
            found: tuple[date] | None = cursor.fetchone()
            if found is None or found[0] >= today:
                return 0
            cursor.execute(_SUM, {"day": found[0]})
            cursor.execute(_SUMMED, [found[0] + _DAY])
    return 1


def late_add(hours: Iterable[tuple[Place, Added]], days_before: date | None) -> None:
    """Add figures of hours to those of their days, where these are summed already.

    The caller holds the lock of the figures.
    """
    if days_before is None:
        return
    late: dict[tuple[Any, ...], Added] = {}
    for place, added in hours:
        day = place.hour.date()
        if day < days_before:
            at = (place.project_id, place.dimension, place.value, day.isoformat(), place.key)
            late.setdefault(at, Added()).add(added)
    if late:
        rows = [
            (*at, each.sessions, each.chains, each.recovered, each.lost)
            for at, each in sorted(late.items())
        ]
        with connection.cursor() as cursor:
            cursor.execute(_ADD_DAYS, columns(rows))


def days_unsum() -> None:
    """Delete the figures of days; they are summed anew. The caller holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sessions_app_failureday")
        cursor.execute(_SUMMED, [None])


def days_forget(before: date, limit: int) -> int:
    """Delete at most `limit` rows of days before a day. Return their number."""
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [before, limit])
            return int(cursor.rowcount)
