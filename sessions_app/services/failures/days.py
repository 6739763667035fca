"""The figures of days that are over: the sums of their hours, so that long lists read less.

A day is summed once, by the task that deletes what is old. The position of the failures says up to
which day. What is counted later for such a day is added to its hour, and that row of the day is
summed once more.
"""

from collections.abc import Iterable
from datetime import date, timedelta

from django.db import connection

from sessions_app.db.bulk import columns
from sessions_app.db.steps import atomic_step
from sessions_app.locks import lock_failures
from sessions_app.services.failures.figures import Place

_DAY = timedelta(days=1)
# Days that an older release summed lack their hours: they come first, once more.
_NEXT = """
    SELECT coalesce((SELECT min(day) FROM sessions_app_failureday WHERE hours IS NULL),
        r.days_before, (SELECT (h.hour AT TIME ZONE 'UTC')::date FROM sessions_app_failurehour h
            ORDER BY h.hour LIMIT 1), %s)
    FROM sessions_app_failurereader r WHERE r.id = 1
"""
_HOURS = ", ".join(f"sum(sessions) FILTER (WHERE at = {at})" for at in range(24))
# The rows of a day lie together by their signatures: the list reads all values of some of these.
_SUM = f"""
    INSERT INTO sessions_app_failureday (project_id, dimension, value, day, key, sessions, chains,
        recovered_chains, lost_run_seconds, hours)
    SELECT project_id, dimension, value, day, key, sum(sessions), sum(chains),
        sum(recovered_chains), sum(lost_run_seconds), ARRAY[{_HOURS}]::integer[]
    FROM (
        SELECT h.*, v.day, extract(hour FROM h.hour AT TIME ZONE 'UTC') AS at FROM {{of}}
            AND h.hour >= v.day::timestamp AT TIME ZONE 'UTC'
            AND h.hour < (v.day + 1)::timestamp AT TIME ZONE 'UTC') AS h
    GROUP BY 1, 2, 3, 4, 5 ORDER BY project_id, dimension, key, value, day
"""
_SUM_DAY = _SUM.format(
    of="(SELECT %s::date AS day) AS v JOIN sessions_app_failurehour h ON true",
)
_SUM_LATE = (
    _SUM.format(
        of="""
        unnest(%s::bigint[], %s::text[], %s::text[], %s::date[], %s::text[])
            AS v(project_id, dimension, value, day, key)
        JOIN sessions_app_failurehour h ON h.project_id = v.project_id
            AND h.dimension = v.dimension AND h.value = v.value AND h.key = v.key
    """,
    )
    + """
    ON CONFLICT (project_id, dimension, value, day, key) DO UPDATE SET
        sessions = excluded.sessions,
        chains = excluded.chains,
        recovered_chains = excluded.recovered_chains,
        lost_run_seconds = excluded.lost_run_seconds,
        hours = excluded.hours
"""
)
_UNSUM_DAY = "DELETE FROM sessions_app_failureday WHERE day = %s"
_SUMMED = """
    UPDATE sessions_app_failurereader SET days_before = greatest(days_before, %s) WHERE id = 1
"""
_UNSUMMED = "UPDATE sessions_app_failurereader SET days_before = NULL WHERE id = 1"
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
            cursor.execute(_UNSUM_DAY, found)
            cursor.execute(_SUM_DAY, found)
            cursor.execute(_SUMMED, [found[0] + _DAY])
    return 1


def late_sum(hours: Iterable[Place], days_before: date | None) -> None:
    """Sum once more the days of hours to which something was added, where they are summed already.

    The caller holds the lock of the figures.
    """
    if days_before is None:
        return
    late = {
        (place.project_id, place.dimension, place.value, day.isoformat(), place.key)
        for place in hours
        if (day := place.hour.date()) < days_before
    }
    if late:
        with connection.cursor() as cursor:
            cursor.execute(_SUM_LATE, columns(sorted(late)))


def days_unsum() -> None:
    """Delete the figures of days; they are summed anew. The caller holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sessions_app_failureday")
        cursor.execute(_UNSUMMED)


def days_forget(before: date, limit: int) -> int:
    """Delete at most `limit` rows of days before a day. Return their number."""
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [before, limit])
            return int(cursor.rowcount)
