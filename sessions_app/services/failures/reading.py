"""The ends of attempts in a stretch of the log, with what their sessions know about them."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.core.cursors import Cursor
from sessions_app.core.node_addresses import node_address
from sessions_app.eventlog.places import STRETCH, stretch_range

SLICE = 2_000
"""Maximum number of events that one transaction passes over."""

# The last event of an archived session. Without the limit PostgreSQL would look for it for every
# session.
_LAST_EVENT = """
    LATERAL (SELECT a.data FROM sessions_app_sessionevent a
        WHERE s.id IS NULL AND a.session_id = {id} AND a.type = 'session.archived' LIMIT 1)
"""
_OF_ATTEMPT = _LAST_EVENT.format(id="e.session_id")
_OF_ROOT = _LAST_EVENT.format(id="e.root_id")
# An archived session has no row any more: then its log says the same. `r` is its last event and `b`
# that of the root, which has the specification of the chain.
_ENDS = f"""
    SELECT e.project_id, e.session_id, e.time, e.type = 'session.error',
        coalesce(e.data->>'failure_signature', ''), coalesce(e.data->>'retry_cause', ''),
        coalesce(s.failure_title, ''), (e.data->>'exit_code')::integer, coalesce(extract(epoch FROM
            (e.data->>'finished_at')::timestamptz - coalesce(s.started_at, (
                SELECT max(l.data->>'started_at')::timestamptz FROM sessions_app_sessionevent l
                WHERE l.session_id = e.session_id AND s.id IS NULL)))::float8, 0),
        coalesce(q.name, r.data->'archive'->>'queue', ''),
        coalesce(c.image, r.data->'archive'->'spec'->>'image',
            b.data->'archive'->'spec'->>'image', ''),
        coalesce(s.executor, (SELECT l.data->>'executor' FROM sessions_app_sessionevent l
            WHERE l.session_id = e.session_id AND l.data ? 'executor'
            ORDER BY l.seq DESC LIMIT 1), ''),
        coalesce(e.data->>'node', ''),
        CASE WHEN e.attempt = 0 THEN '{{}}' WHEN s.id IS NOT NULL THEN ARRAY(
            SELECT a.failure_signature::text FROM sessions_app_session a
            WHERE a.root_id = e.root_id AND a.retry_count < e.attempt
                AND a.failure_signature <> '')
        ELSE ARRAY(
            SELECT l.data->>'failure_signature'
            FROM jsonb_array_elements_text(r.data->'archive'->'chain') AS chain(id)
            JOIN sessions_app_sessionevent l ON l.session_id = chain.id::uuid
            WHERE l.type = 'session.error' AND l.attempt < e.attempt
                AND l.data->>'failure_signature' <> '') END
    FROM {STRETCH} e
    JOIN sessions_app_project p ON p.id = e.project_id
    LEFT JOIN sessions_app_session s ON s.id = e.session_id
    LEFT JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    LEFT JOIN sessions_app_queue q ON q.id = s.queue_id
    LEFT JOIN {_OF_ATTEMPT} AS r ON true
    LEFT JOIN {_OF_ROOT} AS b ON true
    WHERE (e.type = 'session.error' AND e.data->>'failure_signature' <> ''
            OR e.type = 'session.terminated' AND e.attempt > 0)
    ORDER BY e.xid, e.id
"""


class Ended(NamedTuple):
    """The end of an attempt: a failure, or a success after failures."""

    project_id: int
    session_id: UUID
    time: datetime
    failed: bool
    key: str
    cause: str
    title: str
    exit_code: int | None
    run_seconds: float
    queue: str
    image: str
    executor: str
    node_name: str
    earlier: list[str]
    """The keys of the failures of the chain before it."""

    @property
    def node(self) -> str:
        """Return the address of its node."""
        return node_address(self.executor, self.node_name)


def ends_between(place: Cursor, reached: Cursor) -> list[Ended]:
    """Return the ends after `place` up to `reached`, in order; both are of one epoch."""
    if reached == place:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, stretch_range(place, reached))
        return [Ended._make(row) for row in cursor.fetchall()]
