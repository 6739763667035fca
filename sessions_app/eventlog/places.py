"""Places in the log for tasks that read all of it behind its writers, slice after slice."""

from typing import Any, NamedTuple

from django.db import connection

from sessions_app.core.cursors import Cursor

# A SELECT with a side effect, until the transaction ends: whoever reads on from a place finds the
# few events and rows that it wants by indexes. In a log that has just grown PostgreSQL would rather
# read all of it, and all sessions, for each stretch.
_HERE = """
    SELECT reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot())::text,
        set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""
# The first event of the next epoch of the database: its ids follow all of the one before.
_NEXT_EPOCH = """
    SELECT epoch FROM sessions_app_sessionevent WHERE id > %s AND epoch > %s ORDER BY id LIMIT 1
"""
_PLACE = "SELECT epoch, xid::text, event_id FROM sessions_app_failurereader WHERE id = %s"
_MOVE = """
    INSERT INTO sessions_app_failurereader (id, epoch, xid, event_id) VALUES (%s, %s, %s::xid8, %s)
    ON CONFLICT (id) DO UPDATE
    SET epoch = excluded.epoch, xid = excluded.xid, event_id = excluded.event_id
"""
_FORGET = "DELETE FROM sessions_app_failurereader WHERE id = %s"
_LAST = 2**64 - 1, 2**63 - 1
MOST_EVENTS = 10_000
"""Maximum number of events in a stretch."""
_RANGE = """
    epoch = %(epoch)s AND xid >= %(xid)s::xid8 AND (xid, id) > (%(xid)s::xid8, %(id)s)
        AND (xid, id) <= (%(to_xid)s::xid8, %(to_id)s)
"""
STRETCH = f"""(
    SELECT * FROM sessions_app_sessionevent WHERE {_RANGE} LIMIT {MOST_EVENTS:d})
"""
"""SQL of a table of the events in a stretch, in no order, with the parameters of `stretch_range`.
PostgreSQL takes any range of the log for a ninth of it, and would read all sessions to join them;
the limit tells how few events there are."""
# The last event of a full stretch, and whether there is any.
_REACH = f"""
    SELECT l.xid::text, l.id, EXISTS (SELECT FROM sessions_app_sessionevent WHERE {_RANGE})
    FROM (SELECT) AS always LEFT JOIN LATERAL (
        SELECT xid, id FROM sessions_app_sessionevent WHERE {_RANGE}
        ORDER BY xid, id OFFSET %(limit)s - 1 LIMIT 1) AS l ON true
"""


class Stretch(NamedTuple):
    """A stretch of the log: how far it goes."""

    reached: Cursor
    """Its end, in the epoch in which it begins; its beginning if it has no events."""
    place: Cursor
    """From which one reads on."""
    more: bool


def position_here() -> Cursor:
    """Return the end of the log: nothing can be written before it any more."""
    with connection.cursor() as cursor:
        cursor.execute(_HERE)
        epoch, xmin, *_ = cursor.fetchone()
    return Cursor(epoch, int(xmin), 0)


def read_to(place: Cursor, end: Cursor) -> Cursor:
    """Return the place up to which the epoch of `place` can be read, if `end` is the end.

    All events before the transaction of `end` are visible; in an earlier epoch, all there are.
    """
    return end if place.epoch == end.epoch else Cursor(place.epoch, *_LAST)


def next_epoch(place: Cursor, end: Cursor) -> Cursor:
    """Return the beginning of the epoch that follows that of `place`, which was read to its end."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_EPOCH, [place.id, place.epoch])
        following = cursor.fetchone()
    return Cursor(following[0] if following else end.epoch, 0, 0)


def stretch_after(place: Cursor, end: Cursor, limit: int) -> Stretch:
    """Return the stretch of at most `limit` events (`MOST_EVENTS`) after `place`, up to `end`."""
    limit = min(limit, MOST_EVENTS)
    to = read_to(place, end)
    with connection.cursor() as cursor:
        cursor.execute(_REACH, {**stretch_range(place, to), "limit": limit})
        xid, number, any_there = cursor.fetchone()
    if xid is not None:
        reached = Cursor(place.epoch, int(xid), number)
        return Stretch(reached, reached, more=True)
    # A position after which nothing was read stays, so that it need not be written again.
    reached = to if any_there else place
    if to == end:
        return Stretch(reached, reached, more=False)
    return Stretch(reached, next_epoch(place, end), more=True)


def stretch_range(place: Cursor, to: Cursor) -> dict[str, Any]:
    """Return the parameters of a statement that reads after `place` up to `to`, in one epoch."""
    return {
        "epoch": place.epoch,
        "xid": str(place.xid),
        "id": place.id,
        "to_xid": str(to.xid),
        "to_id": to.id,
    }


def place_of(reader: int) -> Cursor | None:
    """Return the place up to which a reader has read the log; None if it has not begun."""
    with connection.cursor() as cursor:
        cursor.execute(_PLACE, [reader])
        found = cursor.fetchone()
    return None if found is None else Cursor(found[0], int(found[1]), found[2])


def place_move(reader: int, place: Cursor) -> None:
    """Let a reader begin, or go on, at a place. The caller holds the lock of what it counts."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, [reader, place.epoch, str(place.xid), place.id])


def place_forget(reader: int) -> None:
    """Forget the place of a reader, which begins anew when somebody asks for it again."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [reader])
