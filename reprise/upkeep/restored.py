"""Makes a database safe after it was set back to an earlier moment.

Between that moment and now it has given out numbers that it would give out again: fencing tokens
that executors still hold, and ids of events that readers remember as their position. A jump over
all of them keeps both unique forever.
"""

from typing import Any, NamedTuple

import psycopg
from psycopg import sql

JUMP = 1_000_000_000
"""More than any sequence grows between a backup and its restore; a bigint has room for 9 * 10^9
such jumps."""
SEQUENCES = "'scheduler_fencing_token', pg_get_serial_sequence('sessions_app_sessionevent', 'id')"
ACTION = "database.restore"
FAILOVER = "database.failover"

_JUMP = f"""
    SELECT setval(name, coalesce(pg_sequence_last_value(name), 0) + %s)
    FROM unnest(ARRAY[{SEQUENCES}]::regclass[]) AS name
"""
# In another cluster transaction ids begin anew. Whoever waits until all older ones have ended, as
# readers of the log do, would wait for those of the old cluster. So they are told that a new life
# has begun, in which all that the earlier ones wrote is visible. Numbered by the clock: a backup
# that is restored twice must not begin the same life twice.
_EPOCH = """
    SELECT greatest(reprise_epoch() + 1, extract(epoch FROM clock_timestamp())::bigint)
"""
_BEGIN_EPOCH = """
    CREATE OR REPLACE FUNCTION reprise_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
        AS $$ SELECT {}::bigint $$
"""
# The same for a backup that is older than epochs.
_EVENTS = """
    UPDATE sessions_app_sessionevent SET xid = '0'
    WHERE EXISTS (SELECT FROM sessions_app_sessionevent
                  WHERE xid >= pg_snapshot_xmin(pg_current_snapshot()))
"""
# The stored state directories describe the past; the agent's next call tells the present one.
_STATE_DIRECTORIES = "UPDATE scheduler_executor SET state_id = ''"
_METRICS = "UPDATE reprise_eventcursor SET fence_xid = 0"
_AUDIT = """
    INSERT INTO sessions_app_auditentry (time, actor, action, object_type, object_id, project, data)
    VALUES (clock_timestamp(), %s, %s, 'database', current_database(), '', '{}')
"""


_STORED = """
    SELECT s.system_identifier, s.timeline, k.system_identifier, k.timeline
    FROM reprise_server() s LEFT JOIN reprise_knownserver k ON true
"""
_STORE = """
    INSERT INTO reprise_knownserver (system_identifier, timeline)
    SELECT system_identifier, timeline FROM reprise_server()
    ON CONFLICT (only_row) DO UPDATE SET system_identifier = excluded.system_identifier,
        timeline = excluded.timeline, since = clock_timestamp()
"""


class Server(NamedTuple):
    """The identity of a PostgreSQL server: it differs from servers that held the data before."""

    system_identifier: int
    timeline: int

    def __str__(self) -> str:
        return f"{self.system_identifier} on timeline {self.timeline}"


def mark_restored(connection: "psycopg.Connection[Any]", *, by: str) -> None:
    """Make an old state of the database safe to continue with, before anything else uses it.

    Harmless when repeated. Also collects the statistics that a dump does not contain.
    """
    with connection.transaction():
        jump_over(connection, by=by, action=ACTION)
        if connection.execute("SELECT to_regclass('reprise_knownserver')").fetchone() != (None,):
            store_server(connection)  # a backup older than that table has none
    connection.execute("ANALYZE")


def jump_over(
    connection: "psycopg.Connection[Any]", *, by: str, action: str, jumps: int = 1
) -> None:
    """Jump beyond all numbers given out, and start a new epoch; in the caller's transaction."""
    connection.execute(_JUMP, (jumps * JUMP,))
    _begin_epoch(connection)
    if connection.execute("SELECT to_regclass('reprise_eventcursor')").fetchone() != (None,):
        connection.execute(_METRICS)  # a backup older than that table has none
    if _has_column(connection, "scheduler_executor", "state_id"):
        connection.execute(_STATE_DIRECTORIES)
    connection.execute(_AUDIT, (by, action))


def server_stored(connection: "psycopg.Connection[Any]") -> tuple[Server | None, Server]:
    """Return the server that the database was last on, if known, and the present one."""
    row = connection.execute(_STORED).fetchone()
    assert row is not None  # noqa: S101  # a function always returns one row
    return (None if row[2] is None else Server(row[2], row[3])), Server(row[0], row[1])


def store_server(connection: "psycopg.Connection[Any]") -> None:
    """Store the present server as the known one."""
    connection.execute(_STORE)


def _has_column(connection: "psycopg.Connection[Any]", table: str, column: str) -> bool:
    """Return whether the table has the column; older backups may lack it."""
    found = connection.execute(
        "SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s",
        (table, column),
    )
    return found.fetchone() is not None


def _begin_epoch(connection: "psycopg.Connection[Any]") -> None:
    if connection.execute("SELECT to_regproc('reprise_epoch')").fetchone() == (None,):
        connection.execute(_EVENTS)
        return
    (epoch,) = connection.execute(_EPOCH).fetchone() or (0,)
    connection.execute(sql.SQL(_BEGIN_EPOCH).format(sql.Literal(epoch)))
