"""The audit log as calls: who changed and who dispatched what."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls
from reprise_client.models import Answer


class AuditEntry(Answer):
    """An entry of the audit log: who did what through which `door` (`rest`, `admin`, `sql`, ...).

    `via` has details of the door. For a change of the configuration, `before` and `after` hold the
    fields that differ. For other acts both are None, and `data` holds the circumstances.
    `automatic` marks the engine's own acts.
    """

    id: int
    time: datetime
    actor: str
    automatic: bool = False
    door: str | None = None
    via: dict[str, str] = {}
    action: str
    object_type: str
    object_id: str
    project: str | None = None
    domain: str | None = None
    root_session_id: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    data: dict[str, Any] = {}


class AuditCalls(Calls):
    """The calls that read the audit log."""

    def audit(self, **filters: Any) -> Iterator[AuditEntry]:
        """Yield the entries about configuration objects, newest first.

        `filters`: `actor`, `action`, `object_type`, `object_id` (with the type), `project`,
        `domain`, `door`, `automatic`, `session`, `chain`, `created_after`, `created_before`.
        """
        return self._pages(AuditEntry, "/audit/", filters)
