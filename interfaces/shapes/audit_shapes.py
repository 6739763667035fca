"""The shapes of the audit log, for the OpenAPI document."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.pages import Page


class AuditEntry(BaseModel):
    """An audit entry: who did what, and through which interface (`door`).

    For a change of the configuration, `before` and `after` are the fields that differ. For an
    action on a session or a task both are null, and `data` has the details.
    """

    id: int
    time: datetime
    actor: str
    automatic: bool
    door: str | None
    via: dict[str, str]
    action: str
    object_type: str
    object_id: str
    project: str | None
    domain: str | None
    root_session_id: UUID | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    data: dict[str, Any]


class AuditPage(Page[AuditEntry]):
    """Entries, newest first."""
