"""The figures of days, as servers of the previous release read and write them.

This release uses totals instead (`totals.py`), and only keeps what is there right for the servers
that it takes the place of, or that take its place again. The next release drops the table.
"""

from collections.abc import Iterable
from datetime import date

from django.db import connection

from sessions_app.db.steps import atomic_step
from sessions_app.locks import lock_failures
from sessions_app.services.failures.figures import Place

_UNSUM_FROM = "UPDATE sessions_app_failurereader SET days_before = %s WHERE id = 1"
_FORGET = """
    DELETE FROM sessions_app_failureday WHERE id IN (
        SELECT id FROM sessions_app_failureday WHERE day < %s ORDER BY day LIMIT %s)
"""


def days_outdate(places: Iterable[Place], days_before: date | None) -> None:
    """Have the days of hours to which something was added summed once more, and those after them.

    The caller holds the lock of the figures.
    """
    oldest = min((place.hour.date() for place in places), default=date.max)
    if days_before is not None and oldest < days_before:
        with connection.cursor() as cursor:
            cursor.execute(_UNSUM_FROM, [oldest])


def days_drop() -> None:
    """Delete the figures of days; they are summed anew. The caller holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sessions_app_failureday")
        cursor.execute(_UNSUM_FROM, [None])


def days_forget(before: date, limit: int) -> int:
    """Delete at most `limit` rows of days before a day. Return their number."""
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [before, limit])
            return int(cursor.rowcount)
