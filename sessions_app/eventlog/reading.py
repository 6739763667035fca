"""The log as streams read it: in the order of visibility, never past an open transaction.

Readers cannot continue after an event's id, since a transaction may commit a smaller one later. So
they continue after (epoch, transaction, id), and read only as far as no older transaction is open
(`pg_snapshot_xmin`). All events of earlier epochs are visible, since their transactions have ended.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.core.cursors import Cursor
from sessions_app.db.bulk import array

RETRY_EVENTS = "session.retry_"
"""The prefix of all event types about what follows a failure."""
QUIET = "quiet"
"""A key in the data of such events that are not shown to anybody. They stay in the log, because
sessions are rebuilt from it: see `emit_retry_events`."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as read from the log; `address` is its project's, `domain/name`."""

    cursor: Cursor
    session_id: UUID
    root_id: UUID
    project_id: int
    address: str
    job_set: str
    attempt: int
    seq: int
    type: str
    time: datetime
    data: dict[str, Any]

    @property
    def quiet(self) -> bool:
        """Return whether the event is hidden from everybody."""
        return self.type.startswith(RETRY_EVENTS) and QUIET in self.data

    @property
    def pk(self) -> int:
        """Return the event's id."""
        return self.cursor.id


COLUMNS = """
    e.epoch, e.xid::text, e.id, e.session_id, e.root_id, e.project_id, d.name || '/' || p.name,
    e.job_set, e.attempt, e.seq, e.type, e.time, e.data::text
"""
"""The columns that `logged` reads, of the aliases `e`, `p` and `d`."""
ADDRESS = """
    JOIN sessions_app_project p ON p.id = e.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
"""


def logged(row: tuple[Any, ...]) -> LoggedEvent:
    """Return the event in a row of `COLUMNS`."""
    epoch, xid, number, *fields = row
    fields[-1] = json.loads(fields[-1])
    return LoggedEvent(Cursor(epoch, int(xid), number), *fields)


def is_quiet(event: str) -> str:
    """Return the SQL of `LoggedEvent.quiet` for a row of the log with this alias."""
    return f"(starts_with({event}.type, '{RETRY_EVENTS}') AND {event}.data ? '{QUIET}')"


# The condition job_set <> '' lets PostgreSQL use the partial index.
_OF_JOB_SETS = f"""
    SELECT {COLUMNS}, k.place
    FROM unnest(%(projects)s::bigint[], %(names)s::text[])
        WITH ORDINALITY AS k(project_id, job_set, place)
    CROSS JOIN LATERAL (
        SELECT * FROM sessions_app_sessionevent l
        WHERE l.project_id = k.project_id AND l.job_set = k.job_set AND l.job_set <> ''
            AND (l.epoch, l.xid, l.id) > (%(epoch)s, %(xid)s::xid8, %(id)s)
            AND (l.epoch, l.xid) < (reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot()))
            AND NOT {is_quiet("l")}
        ORDER BY l.epoch, l.xid, l.id LIMIT %(limit)s) e {ADDRESS}
    ORDER BY k.place, e.epoch, e.xid, e.id
"""


def job_set_events(project_id: int, name: str, after: Cursor, limit: int) -> list[LoggedEvent]:
    """Return the next events of a job set, in order; none can appear between them later."""
    (found,) = job_sets_events([(project_id, name)], after, limit)
    return found


def job_sets_events(
    wanted: Sequence[tuple[int, str]], after: Cursor, limit: int
) -> list[list[LoggedEvent]]:
    """Return what `job_set_events` does for each job set (project, name), in one statement."""
    place: dict[str, Any] = {
        "projects": array(project for project, _ in wanted),
        "names": array(name for _, name in wanted),
        "epoch": after.epoch,
        "xid": str(after.xid),
        "id": after.id,
        "limit": limit,
    }
    found: list[list[LoggedEvent]] = [[] for _ in wanted]
    with connection.cursor() as cursor:
        cursor.execute(_OF_JOB_SETS, place)
        for *row, position in cursor.fetchall():
            found[position - 1].append(logged(tuple(row)))
    return found


def job_set_exists(project_id: int, name: str) -> bool:
    """Return whether the log of a project has events of a job set."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM sessions_app_sessionevent "
            "WHERE project_id = %s AND job_set = %s AND job_set <> '')",
            [project_id, name],
        )
        return bool(cursor.fetchone()[0])


class JobSet(NamedTuple):
    """The sessions of a project under one job set name, with first and last event times."""

    project_id: int
    address: str
    name: str
    first_event_at: datetime
    last_event_at: datetime


_FIRST_AND_LAST_EVENTS = """
    SELECT n.project_id, d.name || '/' || p.name, n.job_set, first.time, last.time FROM wanted n
    JOIN sessions_app_project p ON p.id = n.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    CROSS JOIN LATERAL (SELECT time FROM sessions_app_sessionevent
        WHERE project_id = n.project_id AND job_set = n.job_set AND job_set <> ''
        ORDER BY epoch, xid, id LIMIT 1) AS first
    CROSS JOIN LATERAL (SELECT time FROM sessions_app_sessionevent
        WHERE project_id = n.project_id AND job_set = n.job_set AND job_set <> ''
        ORDER BY epoch DESC, xid DESC, id DESC LIMIT 1) AS last
    ORDER BY 1, 3
"""
# The index leads from each name to the next one, whatever the number of events in between.
_JOB_SETS = f"""
    WITH wanted AS (
        SELECT f.project_id, f.job_set FROM unnest(%(projects)s::bigint[]) AS w(id)
        CROSS JOIN LATERAL (
            WITH RECURSIVE names AS (
                (SELECT project_id, job_set FROM sessions_app_sessionevent
                WHERE project_id = w.id AND job_set <> '' AND
                    job_set > CASE WHEN w.id = %(project)s THEN %(name)s ELSE '' END
                ORDER BY job_set LIMIT 1)
                UNION ALL
                SELECT following.project_id, following.job_set FROM names
                CROSS JOIN LATERAL (
                    SELECT project_id, job_set FROM sessions_app_sessionevent
                    WHERE project_id = names.project_id AND job_set <> ''
                        AND job_set > names.job_set
                    ORDER BY job_set LIMIT 1) AS following)
            SELECT project_id, job_set FROM names LIMIT %(limit)s) AS f
        ORDER BY 1, 2 LIMIT %(limit)s)
    {_FIRST_AND_LAST_EVENTS}
"""


def job_sets(projects: Sequence[int], after: tuple[int, str], limit: int) -> list[JobSet]:
    """Return the next job sets of these projects after `after` (project, name), in that order."""
    begun, name = after
    wanted: dict[str, Any] = {
        "projects": sorted(each for each in projects if each >= begun),
        "project": begun,
        "name": name,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_JOB_SETS, wanted)
        return [JobSet._make(row) for row in cursor.fetchall()]


_JOB_SET = f"""
    WITH wanted AS (SELECT %s::bigint AS project_id, %s::text AS job_set)
    {_FIRST_AND_LAST_EVENTS}
"""  # a constant


def job_set_get(project_id: int, name: str) -> JobSet | None:
    """Return one job set; None if the log has no events of it."""
    with connection.cursor() as cursor:
        cursor.execute(_JOB_SET, [project_id, name])
        row = cursor.fetchone()
    return None if row is None else JobSet._make(row)
