"""Events as JSON for every door and for webhooks."""

from typing import Any

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
        # An archive event holds the whole session, which is shown where sessions are.
        "data": {} if event.type == ARCHIVED else event.data,
    }
