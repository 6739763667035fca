"""Renders the audit log."""

from typing import Any

from sessions_app.audit.context import ENGINE
from sessions_app.core.stored_numbers import in_short
from sessions_app.models import AuditLog


def audit_json(entry: AuditLog) -> dict[str, Any]:
    """Return an entry of the log."""
    before, after = entry.data.get("before"), entry.data.get("after")
    changed = isinstance(before, dict) and isinstance(after, dict)
    return {
        "id": entry.pk,
        "time": entry.time,
        "actor": entry.actor,
        "automatic": entry.actor == ENGINE,
        "door": entry.door or None,
        "via": entry.via,
        "action": entry.action,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "project": entry.project or None,
        "domain": entry.domain or None,
        "root_session_id": entry.root,
        "before": in_short(before) if changed else None,
        "after": in_short(after) if changed else None,
        "data": {} if changed else in_short(entry.data),
    }
