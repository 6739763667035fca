"""Appends acts on sessions and tasks to the audit log, in bulk.

The database itself records changes of configuration (`sessions_app/migrations/sql/audit.sql`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from sessions_app.audit.context import ENGINE, TASK, current
from sessions_app.db.bulk import SentRows, json_text
from sessions_app.db.writes import Writes
from sessions_app.locks import CLAIM_DISPATCHES
from sessions_app.models.audit import DISPATCH


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One act on an object: who did what, with details.

    For an act on a session also its project and the root of its chain.
    """

    actor: str
    action: str
    object_type: str
    object_id: str
    data: dict[str, Any] = field(default_factory=dict)
    project_id: int | None = None
    root: UUID | None = None


_ACTS = SentRows[[AuditRow]](
    ("actor", "text", lambda row: row.actor),
    ("action", "text", lambda row: row.action),
    ("object_type", "text", lambda row: row.object_type),
    ("object_id", "text", lambda row: row.object_id),
    ("project_id", "bigint", lambda row: row.project_id),
    ("root", "uuid", lambda row: row.root),
    ("data", "jsonb", lambda row: row.data),
    numbered="place",
)
_APPEND = f"""
    INSERT INTO sessions_app_auditentry
        (time, door, via, actor, action, object_type, object_id, project, domain, root, data)
    SELECT %s, CASE v.actor WHEN %s THEN %s ELSE %s END, %s::jsonb, v.actor, v.action,
        v.object_type, v.object_id, coalesce(d.name || '/' || p.name, ''), coalesce(d.name, ''),
        v.root, v.data::jsonb
    FROM {_ACTS}
    LEFT JOIN sessions_app_project p ON p.id = v.project_id
    LEFT JOIN sessions_app_domain d ON d.id = p.domain_id
    ORDER BY v.place
"""


_DISPATCHES = SentRows[[AuditRow]](
    ("object_id", "text", lambda row: row.object_id),
    ("project_id", "bigint", lambda row: row.project_id),
    ("root", "uuid", lambda row: row.root),
    ("data", "jsonb", lambda row: row.data),
    numbered="place",
)
# Both tables form one list (`AuditLog`), in one order of ids.
_DISPATCHED = f"""
    INSERT INTO sessions_app_automaticdispatch
        (id, time, via, object_id, project, domain, root, data)
    SELECT nextval('sessions_app_auditentry_id_seq'), %s, %s::jsonb, v.object_id,
        coalesce(d.name || '/' || p.name, ''), coalesce(d.name, ''), v.root, v.data::jsonb
    FROM {_DISPATCHES}
    LEFT JOIN sessions_app_project p ON p.id = v.project_id
    LEFT JOIN sessions_app_domain d ON d.id = p.domain_id
    ORDER BY v.place
"""
_FORGET = f"DELETE FROM sessions_app_automaticdispatch WHERE id IN ({CLAIM_DISPATCHES})"


def audit_append(writes: Writes, rows: Sequence[AuditRow], *, now: datetime) -> None:
    """Write audit entries.

    People's acts take one statement, dispatches by the engine another; mostly there is one kind.
    """
    dispatched = [row for row in rows if (row.actor, row.action) == (ENGINE, DISPATCH)]
    if dispatched:
        _dispatched(writes, dispatched, now)
    if len(dispatched) < len(rows):
        _acts(writes, [row for row in rows if (row.actor, row.action) != (ENGINE, DISPATCH)], now)


def dispatches_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` old automatic dispatches, oldest first. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [before, limit])
        return int(cursor.rowcount)


def _dispatched(writes: Writes, rows: Sequence[AuditRow], now: datetime) -> None:
    writes.add(_DISPATCHED, [now, json_text(current().via), *_DISPATCHES.arrays(rows)])


def _acts(writes: Writes, rows: Sequence[AuditRow], now: datetime) -> None:
    context = current()
    about = [now, ENGINE, TASK, context.door, json_text(context.via)]
    writes.add(_APPEND, [*about, *_ACTS.arrays(rows)])
