"""An event as the JSON of the contract, for every door and for webhooks."""

from typing import Any

from sessions_app.eventlog.reading import LoggedEvent
from sessions_app.models import SessionEvent
from sessions_app.models.events import ARCHIVED


def event_json(event: SessionEvent | LoggedEvent) -> dict[str, Any]:
    """One event of the contract; `cursor` is its place in the stream of its job set."""
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
        # What the archive needs is the whole session, which is told where sessions are.
        "data": {} if event.type == ARCHIVED else event.data,
    }
