"""The audit log as calls: who changed and who dispatched what."""

from collections.abc import Iterator
from typing import Any

from reprise_client.calls import Calls
from reprise_client.models import AuditEntry


class AuditCalls(Calls):
    """The calls that read the audit log."""

    def audit(self, **filters: Any) -> Iterator[AuditEntry]:
        """Yield the entries about configuration objects, newest first.

        `filters`: `actor`, `action`, `object_type`, `object_id` (with the type), `project`,
        `domain`, `door`, `automatic`, `session`, `chain`, `created_after`, `created_before`.
        """
        return self._pages(AuditEntry, "/audit/", filters)
