"""What a database has to be told once after it was set back to an earlier moment.

Between that moment and now it has given out numbers, which it would give out again: fencing
tokens that executors still hold, and ids of events that readers remember as their place. A jump
over all of them keeps both unique for ever.
"""

import psycopg

JUMP = 1_000_000_000
"""More than any sequence here grows between a backup and its use; a bigint has room for 9 * 10^9
such jumps."""
SEQUENCES = "'scheduler_fencing_token', pg_get_serial_sequence('sessions_app_sessionevent', 'id')"
ACTION = "database.restore"

_JUMP = f"""
    SELECT setval(name, coalesce(pg_sequence_last_value(name), 0) + %s)
    FROM unnest(ARRAY[{SEQUENCES}]::regclass[]) AS name
"""  # noqa: S608  # names of our own
# In another cluster transaction ids begin anew. Whoever waits until all older ones have ended, as
# readers of the log do, would wait for those of the old cluster; what was restored is all visible.
_EVENTS = """
    UPDATE sessions_app_sessionevent SET xid = '0'
    WHERE EXISTS (SELECT FROM sessions_app_sessionevent
                  WHERE xid >= pg_snapshot_xmin(pg_current_snapshot()))
"""
_METRICS = "UPDATE reprise_eventcursor SET fence_xid = 0"
_AUDIT = """
    INSERT INTO sessions_app_auditentry (time, actor, action, object_type, object_id, project, data)
    VALUES (clock_timestamp(), %s, %s, 'database', current_database(), '', '{}')
"""


def mark_restored(connection: "psycopg.Connection[tuple[object, ...]]", *, by: str) -> None:
    """Make an old state of the database safe to go on from; before anything else uses it.

    Harmless when done twice. Also collects the statistics that a dump does not carry.
    """
    with connection.transaction():
        connection.execute(_JUMP, (JUMP,))
        connection.execute(_EVENTS)
        if connection.execute("SELECT to_regclass('reprise_eventcursor')").fetchone() != (None,):
            connection.execute(_METRICS)  # a backup of before that table has none
        connection.execute(_AUDIT, (by, ACTION))
    connection.execute("ANALYZE")
