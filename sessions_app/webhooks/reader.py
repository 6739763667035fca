"""Reading of the log into the outbox: together for webhooks that keep up, else one by one.

Each function is one short transaction, or one for each webhook that is behind, with a fixed number
of statements for any number of events, under the lock of the outbox.
"""

from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.core.cursors import START, Cursor
from sessions_app.db.steps import atomic_step
from sessions_app.eventlog.places import next_epoch, position_here, read_to, stretch_range
from sessions_app.eventlog.reading import is_quiet
from sessions_app.locks import database_now, lock_webhooks

SLICE = 2_000
"""Maximum number of events that one transaction passes over."""
MOST_WAITING = 10_000
"""Maximum number of deliveries that wait for one webhook; later events wait in the log."""

_READER = "SELECT epoch, xid::text, event_id FROM sessions_app_webhookreader WHERE id = 1"
_SET_READER = """
    INSERT INTO sessions_app_webhookreader (id, epoch, xid, event_id) VALUES (1, %s, %s::xid8, %s)
    ON CONFLICT (id) DO UPDATE
    SET epoch = excluded.epoch, xid = excluded.xid, event_id = excluded.event_id
"""
_SET_OWN = """
    UPDATE sessions_app_webhookendpoint
    SET epoch = %s::bigint, xid = %s::xid8, event_id = %s::bigint WHERE id = %s
"""
_FOLLOWED = """
    SELECT EXISTS (SELECT FROM sessions_app_webhookendpoint
        WHERE paused_at IS NULL AND epoch IS NULL)
"""
# Webhooks with a full outbox wait until part of it was sent.
_BEHIND = """
    SELECT id, epoch, xid::text, event_id FROM sessions_app_webhookendpoint w
    WHERE paused_at IS NULL AND epoch IS NOT NULL AND (
        SELECT count(*) FROM (SELECT FROM sessions_app_webhookdelivery
            WHERE endpoint_id = w.id AND state = 'waiting' LIMIT %(most)s) AS first) < %(most)s
    ORDER BY id LIMIT 100
"""
# `early` are events that come before one of this slice in their session, but later in the log: a
# younger transaction was the first to lock the session. They must not be delivered later. OFFSET 0
# makes PostgreSQL search by the session only; there are many more young events.
_READ = f"""
    WITH fresh AS MATERIALIZED (
        SELECT id, xid, session_id, project_id, type, seq, {is_quiet("l")} AS quiet
        FROM sessions_app_sessionevent l
        WHERE epoch = %(epoch)s AND xid >= %(xid)s::xid8 AND (xid, id) > (%(xid)s::xid8, %(id)s)
            AND (xid, id) <= (%(to_xid)s::xid8, %(to_id)s)
        ORDER BY xid, id LIMIT %(limit)s),
    reached AS MATERIALIZED (
        SELECT count(*) AS passed, max(xid::text::numeric) AS xid FROM fresh),
    early AS (
        SELECT e.* FROM fresh f CROSS JOIN LATERAL (
            SELECT id, xid, session_id, project_id, type, seq, {is_quiet("l")} AS quiet, epoch
            FROM sessions_app_sessionevent l
            WHERE session_id = f.session_id AND seq < f.seq OFFSET 0) AS e
        WHERE (SELECT passed FROM reached) = %(limit)s AND e.epoch = %(epoch)s
            AND e.xid >= (SELECT xid FROM reached)::text::xid8
            AND (e.xid, e.id) <= (%(to_xid)s::xid8, %(to_id)s)),
    wanted AS MATERIALIZED (
        SELECT w.id AS endpoint_id, e.id, e.session_id, e.type, e.seq
        FROM (SELECT * FROM fresh UNION
            SELECT id, xid, session_id, project_id, type, seq, quiet FROM early) AS e
        JOIN sessions_app_webhookendpoint w ON w.project_id = e.project_id AND w.paused_at IS NULL
            AND (w.id = %(endpoint)s::uuid
                OR %(endpoint)s::uuid IS NULL AND w.epoch IS NULL)
        WHERE NOT e.quiet AND (w.event_types = '{{}}' OR EXISTS (
                SELECT FROM unnest(w.event_types) AS t(name) WHERE t.name = e.type
                OR right(t.name, 1) = '*' AND starts_with(e.type, left(t.name, -1))))
            AND NOT EXISTS (SELECT FROM sessions_app_webhookdelivery d
                WHERE d.endpoint_id = w.id AND d.event_id = e.id AND NOT d.redelivery)),
    made AS (
        INSERT INTO sessions_app_webhookdelivery
            (endpoint_id, event_id, session_id, type, state, attempts, due_at, redelivery,
             created_at, response_excerpt, error)
        SELECT endpoint_id, id, session_id, type, 'waiting', 0, CASE WHEN
                row_number() OVER (PARTITION BY endpoint_id, session_id ORDER BY seq) = 1
                AND NOT EXISTS (SELECT FROM sessions_app_webhookdelivery d
                    WHERE d.endpoint_id = w.endpoint_id AND d.session_id = w.session_id
                        AND d.state = 'waiting')
            THEN %(now)s::timestamptz END, false, %(now)s, '', ''
        FROM wanted w ORDER BY session_id, seq, endpoint_id
        RETURNING id)
    SELECT passed, xid::text, (SELECT max(id) FROM fresh WHERE xid = r.xid::text::xid8),
        (SELECT count(*) FROM made)
    FROM reached r
"""


class Read(NamedTuple):
    """The result of one read of the log."""

    passed: int
    made: int
    more: bool
    """Whether there was more than one slice."""


def position_shared() -> Cursor:
    """Return the position of the webhooks that keep up; call it under the lock of the outbox."""
    with connection.cursor() as cursor:
        cursor.execute(_READER)
        found = cursor.fetchone()
    return START if found is None else Cursor(found[0], int(found[1]), found[2])


def log_read(limit: int = SLICE) -> Read:
    """Put the next slice of the log into the outbox of all webhooks that keep up."""
    with atomic_step("webhook_read"):
        lock_webhooks()
        here, before = position_here(), position_shared()
        with connection.cursor() as cursor:
            cursor.execute(_FOLLOWED)
            if cursor.fetchone() == (False,):
                place, read = here, Read(0, 0, more=False)
            else:
                place, read = _step(before, here, None, limit)
            if place != before:
                cursor.execute(_SET_READER, _parts(place))
    return read


def log_read_behind(limit: int = SLICE) -> bool:
    """Read a slice for each webhook that is behind. Return whether any of them has more to read."""
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, {"most": MOST_WAITING})
        behind = cursor.fetchall()
    more = [_read_behind(row[0], limit) for row in behind]
    return any(more)


def _read_behind(endpoint: UUID, limit: int) -> bool:
    with atomic_step("webhook_read"):
        lock_webhooks()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT epoch, xid::text, event_id FROM sessions_app_webhookendpoint "
                "WHERE id = %s AND paused_at IS NULL AND epoch IS NOT NULL",
                [endpoint],
            )
            row = cursor.fetchone()
            if row is None:
                return False
            own, shared = Cursor(row[0], int(row[1]), row[2]), position_shared()
            # In the middle of a slice, an earlier event of a session may lie after the position.
            if own > shared or shared.id:
                return False
            place, read = _step(own, shared, endpoint, limit)
            joined = place >= shared
            cursor.execute(_SET_OWN, [*((None,) * 3 if joined else _parts(place)), endpoint])
    return not joined or read.more


def _parts(place: Cursor) -> tuple[int, str, int]:
    return place.epoch, str(place.xid), place.id


def _step(place: Cursor, end: Cursor, endpoint: UUID | None, limit: int) -> tuple[Cursor, Read]:
    """Read on from `place`, at most to `end`. Return the position reached and the result."""
    same_life = place.epoch == end.epoch
    to = read_to(place, end)
    wanted: dict[str, Any] = {
        **stretch_range(place, to),
        "endpoint": endpoint,
        "limit": limit,
        "now": database_now(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ, wanted)
        passed, last_xid, last_id, made = cursor.fetchone()
        if passed == limit:
            return Cursor(place.epoch, int(last_xid), last_id), Read(passed, made, more=True)
        if same_life:
            # A position after which nothing was read stays, so that it need not be written again.
            return (end if passed or endpoint else place), Read(passed, made, more=False)
    return next_epoch(place, end), Read(passed, made, more=True)
