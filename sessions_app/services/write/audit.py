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
from sessions_app.db.bulk import array, json_array, json_text
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


_APPEND = """
    INSERT INTO sessions_app_auditentry
        (time, door, via, actor, action, object_type, object_id, project, domain, root, data)
    SELECT %s, CASE v.actor WHEN %s THEN %s ELSE %s END, %s::jsonb, v.actor, v.action,
        v.object_type, v.object_id, coalesce(d.name || '/' || p.name, ''), coalesce(d.name, ''),
        v.root, v.data::jsonb
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::uuid[],
            %s::text[]) WITH ORDINALITY
        AS v(actor, action, object_type, object_id, project_id, root, data, place)
    LEFT JOIN sessions_app_project p ON p.id = v.project_id
    LEFT JOIN sessions_app_domain d ON d.id = p.domain_id
    ORDER BY v.place
"""


# Both tables form one list (`AuditLog`), in one order of ids.
_DISPATCHED = """
    INSERT INTO sessions_app_automaticdispatch
        (id, time, via, object_id, project, domain, root, data)
    SELECT nextval('sessions_app_auditentry_id_seq'), %s, %s::jsonb, v.object_id,
        coalesce(d.name || '/' || p.name, ''), coalesce(d.name, ''), v.root, v.data::jsonb
    FROM unnest(%s::text[], %s::bigint[], %s::uuid[], %s::text[]) WITH ORDINALITY
        AS v(object_id, project_id, root, data, place)
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
    writes.add(
        _DISPATCHED,
        [
            now,
            json_text(current().via),
            array(row.object_id for row in rows),
            array(row.project_id for row in rows),
            array(row.root for row in rows),
            json_array(row.data for row in rows),
        ],
    )


def _acts(writes: Writes, rows: Sequence[AuditRow], now: datetime) -> None:
    context = current()
    writes.add(
        _APPEND,
        [
            now,
            ENGINE,
            TASK,
            context.door,
            json_text(context.via),
            array(row.actor for row in rows),
            array(row.action for row in rows),
            array(row.object_type for row in rows),
            array(row.object_id for row in rows),
            array(row.project_id for row in rows),
            array(row.root for row in rows),
            json_array(row.data for row in rows),
        ],
    )
