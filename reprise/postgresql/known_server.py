"""Checks at every new connection that the database is still on the server that it was on.

A promoted standby may lack the last commits of its primary, and would then give out the same
fencing tokens and event ids again. A server counts as another one if the timeline of its WAL or its
system identifier differs. The first connection to another server makes the database safe to
continue with (`reprise/upkeep/restored.py`) and stores the new server, in one transaction under one
lock. All others wait for that, so that none works on an unsafe database.
"""

import logging
from typing import Any

import psycopg
from psycopg import errors

from reprise.upkeep.restored import FAILOVER, jump_over, server_stored, store_server
from sessions_app.audit.context import ENGINE
from sessions_app.db.failpoints import failpoint
from sessions_app.locks import AdvisoryLock

logger = logging.getLogger(__name__)

_LOOK = "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE reprise_server_known() END"


def see_server(connection: "psycopg.Connection[Any]") -> None:
    """Return once the connection leads to a server that is known; in one statement if it is.

    Raises `psycopg.OperationalError` on a standby: a promotion during an open connection would go
    unnoticed.
    """
    try:
        found = connection.execute(_LOOK).fetchone()
    except errors.UndefinedFunction:
        if not connection.autocommit:
            connection.rollback()
        return  # `migrate` has not created the function yet
    if not connection.autocommit:
        connection.commit()
    if found == (None,):
        raise psycopg.OperationalError("this PostgreSQL is a standby: Reprise needs the primary")
    if found != (True,):
        _take_over(connection)


def _take_over(connection: "psycopg.Connection[Any]") -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.SERVER.value])
        before, now = server_stored(connection)
        if before == now:
            return  # another process has done it
        if before is not None:
            # Each promotion adds one timeline, and each may have jumped, even those this server
            # never saw.
            same = before.system_identifier == now.system_identifier
            jumps = max(1, now.timeline - before.timeline) if same else 1
            jump_over(connection, by=ENGINE, action=FAILOVER, jumps=jumps)
        store_server(connection)
        failpoint("failover.before_commit")
    failpoint("failover.after_commit")
    if before is not None:
        logger.warning(
            "the database is on another server than before (%s -> %s): fencing tokens and event "
            "ids continue above all that the other server can have used",
            before,
            now,
        )
