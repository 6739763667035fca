"""Appending to the audit log, in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from sessions_app.bulk import array, json_array


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what to which object; `data` holds before and after, or the circumstances."""

    actor: str
    action: str
    object_type: str
    object_id: str
    project: str = ""
    data: dict[str, Any] = field(default_factory=dict)


_APPEND = """
    INSERT INTO sessions_app_auditentry
        (time, actor, action, object_type, object_id, project, data)
    SELECT %s, v.actor, v.action, v.object_type, v.object_id, v.project, v.data::jsonb
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
        AS v(actor, action, object_type, object_id, project, data)
"""


def audit_append(rows: Sequence[AuditRow], *, now: datetime) -> None:
    """Write audit entries in one statement, in the caller's transaction."""
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _APPEND,
            [
                now,
                array(row.actor for row in rows),
                array(row.action for row in rows),
                array(row.object_type for row in rows),
                array(row.object_id for row in rows),
                array(row.project for row in rows),
                json_array(row.data for row in rows),
            ],
        )
