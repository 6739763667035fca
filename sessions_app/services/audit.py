"""Appending to the audit log what was done to sessions and tasks, in bulk.

Changes of the configuration are told by the database itself (`sessions_app/audit_triggers.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from pydantic_core import to_json

from sessions_app.audit_context import ENGINE, TASK, current
from sessions_app.bulk import array, json_array


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what to which object, and in what circumstances.

    For what was done to a session also its project and the root of its chain.
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


def audit_append(rows: Sequence[AuditRow], *, now: datetime) -> None:
    """Write audit entries in one statement, in the caller's transaction."""
    if not rows:
        return
    context = current()
    with connection.cursor() as cursor:
        cursor.execute(
            _APPEND,
            [
                now,
                ENGINE,
                TASK,
                context.door,
                to_json(context.via).decode(),
                array(row.actor for row in rows),
                array(row.action for row in rows),
                array(row.object_type for row in rows),
                array(row.object_id for row in rows),
                array(row.project_id for row in rows),
                array(row.root for row in rows),
                json_array(row.data for row in rows),
            ],
        )
