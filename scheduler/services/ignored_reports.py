"""Reports that change nothing: the events that record them, and their limits."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from scheduler.wire import Report
from sessions_app.db.bulk import array
from sessions_app.services.write.transitions import Event

IGNORED_EVENT = "session.report_ignored"
MOST_IGNORED = 20
"""Maximum number of ignored-report events that a session gets under one lease."""

_FORMER = """
    SELECT session_id, (data ->> 'fencing_token')::bigint FROM sessions_app_sessionevent
    WHERE session_id = ANY(%s::uuid[]) AND type = 'session.scheduled' AND data ->> 'executor' = %s
"""
_COUNTS = """
    SELECT e.session_id, count(*) FROM sessions_app_sessionevent e
    WHERE e.session_id = ANY(%s::uuid[]) AND e.type = %s AND e.seq > coalesce((
        SELECT max(s.seq) FROM sessions_app_sessionevent s
        WHERE s.session_id = e.session_id AND s.type = 'session.scheduled'), 0)
    GROUP BY e.session_id
"""


def former_leases(executor: str, session_ids: Sequence[UUID]) -> set[tuple[UUID, int]]:
    """Return the sessions that an executor has held, with the fencing token of each lease."""
    with connection.cursor() as cursor:
        cursor.execute(_FORMER, [array(session_ids), executor])
        return set(cursor.fetchall())


def ignored_counts(session_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return how many ignored reports each session's log has since its newest lease."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [array(session_ids), IGNORED_EVENT])
        return dict.fromkeys(session_ids, 0) | dict(cursor.fetchall())


def ignored_event(report: Report, detail: str) -> Event:
    """Return the event that records an ignored report, and why it was ignored."""
    shown = {
        "status": report.status.value,
        "seq": report.seq,
        "fencing_token": report.fencing_token,
    }
    return Event(IGNORED_EVENT, {"reason": detail, "report": shown})
