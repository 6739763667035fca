"""The figures of nodes: how the newest attempts on each node ended, counted behind the log.

A stretch of the log is one transaction with a fixed number of statements, under the lock of the
figures, which moves the position as well: no attempt counts twice, and none is left out.
"""

import time
from datetime import timedelta
from typing import NamedTuple

from django.db import connection

from retry.suspects import NOT_COUNTED
from scheduler.locks import lock_nodes
from sessions_app.core.cursors import START, Cursor
from sessions_app.db.bulk import array
from sessions_app.db.steps import atomic_step
from sessions_app.eventlog.places import (
    STRETCH,
    position_here,
    stretch_after,
    stretch_range,
)

SLICE = 2_000
"""Maximum number of events that one transaction passes over."""
NEWEST = 200
"""Maximum number of attempts that count for a node."""
OLDEST = timedelta(hours=24)
"""Attempts that ended longer ago do not count."""

_PLACE = "SELECT epoch, xid::text, event_id FROM scheduler_nodereader WHERE id = 1"
_SET_PLACE = """
    INSERT INTO scheduler_nodereader AS r (id, epoch, xid, event_id, listed, to_judge)
    VALUES (1, %s, %s::xid8, %s, '{}', %s)
    ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, xid = excluded.xid,
        event_id = excluded.event_id, to_judge = r.to_judge OR excluded.to_judge
"""
# Sessions that were archived since ended long ago. Of several pods, the event of a failure names
# the node of the one that failed first.
_ENDS = f"""
    SELECT e.xid, e.id, e.time AS ended_at, e.root_id AS chain, x.id AS executor_id,
        x.name AS executor, coalesce(nullif(e.data->>'node', ''), s.node) AS node,
        hashtextextended(jsonb_build_array(e.project_id, e.job_set,
            CASE e.job_set WHEN '' THEN c.image ELSE '' END)::text, 0) AS work,
        CASE e.type WHEN 'session.error' THEN coalesce(e.data->>'retry_cause', '') ELSE '' END
            AS cause,
        coalesce(e.data->>'failure_signature', '') AS signature
    FROM {STRETCH} e
    JOIN sessions_app_session s ON s.id = e.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    JOIN scheduler_executor x ON x.name = s.executor
    WHERE e.type IN ('session.error', 'session.terminated')
        AND e.time >= clock_timestamp() - %(oldest)s
        AND coalesce(nullif(e.data->>'node', ''), s.node) <> ''
        AND coalesce(e.data->>'retry_cause', '') <> ALL(%(not_counted)s::text[])
"""
_ADD_NODES = f"""
    INSERT INTO scheduler_node (executor_id, name, address, present, reason, quarantined_by,
        quarantine_reason)
    SELECT DISTINCT e.executor_id, e.node, e.executor || '/' || e.node, false, '', '', ''
    FROM ({_ENDS}) AS e
    WHERE NOT EXISTS (SELECT FROM scheduler_node n
        WHERE n.executor_id = e.executor_id AND n.name = e.node)
    ORDER BY 1, 2
    ON CONFLICT (executor_id, name) DO NOTHING
"""
_ADD = f"""
    WITH added AS (
        INSERT INTO scheduler_nodeattempt (node_id, ended_at, work, chain, cause, signature)
        SELECT n.id, e.ended_at, e.work, e.chain, e.cause, e.signature FROM ({_ENDS}) AS e
        JOIN scheduler_node n ON n.executor_id = e.executor_id AND n.name = e.node
        ORDER BY e.xid, e.id
        RETURNING node_id, cause)
    SELECT node_id, count(*), count(*) FILTER (WHERE cause <> '') FROM added GROUP BY node_id
"""
_TRIM = f"""
    DELETE FROM scheduler_nodeattempt WHERE id IN (
        SELECT old.id FROM unnest(%s::bigint[]) AS v(node_id)
        CROSS JOIN LATERAL (SELECT id FROM scheduler_nodeattempt a WHERE a.node_id = v.node_id
            ORDER BY id DESC OFFSET {NEWEST}) AS old)
"""


class Counted(NamedTuple):
    """What a stretch of the log, or several, added to the figures."""

    ends: int
    failures: int
    more: bool
    """Whether more of the log follows."""


def nodes_count(seconds: float) -> Counted:
    """Count what is new in the log, for at most `seconds`."""
    until = time.monotonic() + seconds
    found = stretch_count()
    while found.more and time.monotonic() < until:
        more = stretch_count()
        found = Counted(found.ends + more.ends, found.failures + more.failures, more.more)
    return found


def stretch_count(limit: int = SLICE) -> Counted:
    """Count the next stretch of the log; of each node, keep the newest attempts only."""
    with atomic_step("nodes"):
        lock_nodes()
        before = _place()
        read = stretch_after(before, position_here(), limit)
        ends, failures = _add(before, read.reached) if read.reached != before else (0, 0)
        if read.place != before:
            epoch, xid, number = read.place
            with connection.cursor() as cursor:
                cursor.execute(_SET_PLACE, [epoch, str(xid), number, failures > 0])
    return Counted(ends, failures, read.more)


def figures_forget() -> None:
    """Delete the figures, and go back to the beginning of the log."""
    with atomic_step("nodes"):
        lock_nodes()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM scheduler_nodeattempt")
            cursor.execute(_SET_PLACE, [START.epoch, str(START.xid), START.id, False])


def _add(before: Cursor, reached: Cursor) -> tuple[int, int]:
    """Count the ends between two places. Return the number of ends, and that of failures."""
    wanted = {
        **stretch_range(before, reached),
        "oldest": OLDEST,
        "not_counted": array(sorted(NOT_COUNTED)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_ADD_NODES, wanted)
        cursor.execute(_ADD, wanted)
        added = cursor.fetchall()
        if added:
            cursor.execute(_TRIM, [array(row[0] for row in added)])
    return sum(row[1] for row in added), sum(row[2] for row in added)


def _place() -> Cursor:
    with connection.cursor() as cursor:
        cursor.execute(_PLACE)
        found = cursor.fetchone()
    if found is None or found[0] is None:
        return START
    return Cursor(found[0], int(found[1]), found[2])
