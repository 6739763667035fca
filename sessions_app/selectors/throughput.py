"""The present throughput, read from the newest part of the log."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db import connection

from sessions_app.db.bulk import array

RATE_WINDOW = 10.0
"""Seconds of the window for rates ..."""
CAUSE_WINDOW = 60.0
"""... and of the window for causes ..."""
READ = 20_000
"""... limited to this number of newest events, over all projects."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Counts of the last `window` seconds, and causes of failures in `cause_window` seconds, the
    most frequent first."""

    window: float
    submitted: int
    retried: int
    succeeded: int
    failed: int
    cause_window: float
    causes: Mapping[str, int]

    @property
    def settled(self) -> int:
        """Return the number of attempts that ended, in any way."""
        return self.succeeded + self.failed


# The JSON of an event is read only where it may contain a cause.
_RECENT = """
    WITH seen AS MATERIALIZED (
        SELECT type, time, attempt, project_id,
            CASE WHEN type IN ('session.error', 'session.cancelled')
                THEN data->>'retry_cause' END AS cause
        FROM sessions_app_sessionevent ORDER BY id DESC LIMIT %(read)s
    ), told AS (
        SELECT CASE WHEN count(*) < %(read)s THEN %(long)s ELSE least(%(long)s,
            greatest(extract(epoch FROM clock_timestamp() - min(time))::float8, 0.1))
            END AS seconds, clock_timestamp() AS now
        FROM seen
    )
    SELECT told.seconds, f.type, f.cause, f.n, f.lately
    FROM told LEFT JOIN LATERAL (
        SELECT type, cause, count(*) AS n,
            count(*) FILTER (WHERE time > told.now - make_interval(secs => %(short)s)) AS lately
        FROM seen
        WHERE time > told.now - make_interval(secs => told.seconds)
            AND (%(projects)s::bigint[] IS NULL OR project_id = ANY(%(projects)s::bigint[]))
            AND (type = ANY(%(types)s::text[]) OR (type = 'session.submitted' AND attempt = 0))
        GROUP BY type, cause
    ) f ON true
    ORDER BY f.n DESC, f.cause
"""
_TYPES = ("session.retry_dispatched", "session.terminated", "session.error", "session.cancelled")


def throughput(projects: Collection[int] | None = None) -> Throughput:
    """Return the throughput of some projects, or of all, in one statement of bounded cost."""
    wanted = {
        "read": READ,
        "short": RATE_WINDOW,
        "long": CAUSE_WINDOW,
        "projects": None if projects is None else array(projects),
        "types": array(_TYPES),
    }
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, wanted)
        rows = cursor.fetchall()
    lately: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for _, kind, cause, found, recent in rows:
        if kind is not None:
            lately[kind] += recent
        if cause:
            causes[cause] += found
    return Throughput(
        window=min(RATE_WINDOW, rows[0][0]),
        submitted=lately["session.submitted"],
        retried=lately["session.retry_dispatched"],
        succeeded=lately["session.terminated"],
        failed=lately["session.error"] + lately["session.cancelled"],
        cause_window=rows[0][0],
        causes=dict(causes.most_common()),
    )
