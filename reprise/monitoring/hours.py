"""What happened in each hour: a roll-up of the log, kept with the counts of metrics.

The periodic task that counts events for `/metrics` counts these in the same statement. They outlive
pruned events, and cost as much to read after a million sessions as after one. Hours from before the
release that began to count them are empty.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

from reprise.models import HourCount

SHOWN = 24
"""Number of hours that are shown, with the present one."""
KEPT = timedelta(hours=48)
TAIL = 20_000
"""Most events that are counted when they are read, because the task has not counted them yet."""
SERIES = """
    SELECT date_trunc('hour', time, 'UTC') AS hour, type,
        CASE WHEN type = 'session.error' THEN coalesce(data->>'retry_cause', '') ELSE '' END
            AS cause, count(*) AS value
    FROM seen
    WHERE type IN ('session.terminated', 'session.error', 'session.cancelled',
            'session.retry_dispatched')
        OR (type = 'session.submitted' AND attempt = 0)
    GROUP BY 1, 2, 3
"""
"""SQL of the counts of `seen` events (`type`, `time`, `attempt`, `data`) ..."""
ADDED = f"""
    INSERT INTO reprise_hourcount (hour, type, cause, value) {SERIES}
    ON CONFLICT (hour, type, cause) DO UPDATE SET value = reprise_hourcount.value + excluded.value
"""
"""... and of what adds them to the roll-up."""
_READ = f"""
    WITH seen AS (
        SELECT type, time, attempt, data FROM sessions_app_sessionevent
        WHERE id > coalesce((SELECT max(counted_id) FROM reprise_eventcursor), 0)
        ORDER BY id DESC LIMIT %(tail)s
    ), tail AS ({SERIES})
    SELECT hour, type, cause, sum(value)::bigint FROM (
        SELECT hour, type, cause, value FROM tail
        UNION ALL SELECT hour, type, cause, value FROM reprise_hourcount) AS both_parts
    WHERE hour >= %(first)s GROUP BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Hour:
    """The counts of one hour, which begins `at`."""

    at: datetime
    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    retried: int
    """Retries that were dispatched."""
    causes: Mapping[str, int]
    """The causes of the failures, the most frequent first."""


def hours(now: datetime) -> list[Hour]:
    """Return the last `SHOWN` hours, the oldest first; one statement of constant cost."""
    begun = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    wanted = [begun - timedelta(hours=back) for back in reversed(range(SHOWN))]
    with connection.cursor() as cursor:
        cursor.execute(_READ, {"first": wanted[0], "tail": TAIL})
        rows = cursor.fetchall()
    types: Counter[tuple[datetime, str]] = Counter()
    causes: dict[datetime, Counter[str]] = {}
    for hour, kind, cause, found in rows:
        types[hour, kind] += found
        if cause:
            causes.setdefault(hour, Counter())[cause] += found
    return [_hour(at, types, causes.get(at, Counter())) for at in wanted]


def _hour(at: datetime, types: Mapping[tuple[datetime, str], int], causes: Counter[str]) -> Hour:
    def of(kind: str) -> int:
        return types[at, f"session.{kind}"]

    return Hour(
        at=at,
        submitted=of("submitted"),
        succeeded=of("terminated"),
        failed=of("error"),
        cancelled=of("cancelled"),
        retried=of("retry_dispatched"),
        causes=dict(causes.most_common()),
    )


def hours_forget(now: datetime) -> None:
    """Delete the counts of hours that nobody is shown any more."""
    HourCount.objects.filter(hour__lt=now - KEPT).delete()
