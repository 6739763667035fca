"""Events as JSON for every door and for webhooks."""

from collections.abc import Mapping
from typing import Any

from retry.breakers import CLUSTER
from sessions_app.core.stored_numbers import in_short
from sessions_app.eventlog.reading import LoggedEvent
from sessions_app.models import SessionEvent
from sessions_app.models.events import ARCHIVED


def event_json(event: SessionEvent | LoggedEvent) -> dict[str, Any]:
    """Return an event as JSON; `cursor` is its position in the stream of its job set."""
    return {
        "id": event.pk,
        "cursor": str(event.cursor),
        "seq": event.seq,
        "type": event.type,
        "session_id": event.session_id,
        "root_session_id": event.root_id,
        "project": event.address,
        "job_set": event.job_set,
        "attempt": event.attempt,
        "time": event.time,
        "data": _told(event),
    }


def _told(event: SessionEvent | LoggedEvent) -> dict[str, Any]:
    if event.type == ARCHIVED:
        return {}  # it holds the whole session, which is shown where sessions are
    data: dict[str, Any] = event.data
    if "progress" in data:
        data = {**data, "progress": in_short(data["progress"])}
    of_cluster = event.type.startswith("breaker.") and data["scope"] == CLUSTER
    return without_person(data) if of_cluster else data


def without_person(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event of the cluster's breaker says to people of a project.

    They see that it turned, but not who did that, nor what they said.
    """
    return {**data, "by": "", "reason": ""} if data["by"] else dict(data)
