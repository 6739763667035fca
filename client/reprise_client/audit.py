"""The audit log as calls: who changed and who dispatched what."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls
from reprise_client.models import Answer


class AuditEntry(Answer):
    """Who did what, through which `door` (`rest`, `admin`, `sql`, ...); `via` says more of it.

    Of a change of the configuration `before` and `after` are the fields that differ; else both
    are None, and `data` tells the circumstances. `automatic` is what the engine did.
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
        """The entries of what one may configure, newest first, page by page.

        `filters`: `actor`, `action`, `object_type`, `object_id` (with the type), `project`,
        `domain`, `door`, `automatic`, `session`, `chain`, `created_after`, `created_before`.
        """
        return self._pages(AuditEntry, "/audit/", filters)
