"""What next attempts had to do with suspect nodes, as the events of their leases tell it."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sessions_app.models import RetryDecision, SessionEvent


def suspects_met(decisions: Sequence[RetryDecision]) -> dict[UUID, dict[str, Any]]:
    """Return the suspect nodes that next attempts left out or were let onto, by failed session.

    The newest lease of each counts. Takes one statement, none if there are no next attempts.
    """
    made = {each.next_session_id: each.session_id for each in decisions if each.next_session_id}
    if not made:
        return {}
    leases = SessionEvent.objects.filter(session_id__in=made, type="session.scheduled")
    newest = leases.order_by("session_id", "-seq").distinct("session_id")
    return {
        made[session_id]: {**data["suspect_nodes"], "executor": data.get("executor")}
        for session_id, data in newest.values_list("session_id", "data")
        if "suspect_nodes" in data
    }
