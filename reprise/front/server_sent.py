"""Events of the log as server-sent events (WHATWG HTML, section 9.2)."""

from functools import cached_property

from rest_framework.utils.encoders import JSONEncoder

from sessions_app.eventlog.event_json import event_json
from sessions_app.eventlog.reading import LoggedEvent
from sessions_app.models import SessionEvent

_ENCODER = JSONEncoder(separators=(",", ":"))


def sent_by_id(event: SessionEvent | LoggedEvent) -> bytes:
    """Return the event with its id, for the stream of a session."""
    return b"id: %d\n" % event.pk + _frame(event)


def sent_by_cursor(event: SessionEvent | LoggedEvent) -> bytes:
    """Return the event with its cursor, for the stream of a job set."""
    return f"id: {event.cursor}\n".encode() + _frame(event)


def _frame(event: SessionEvent | LoggedEvent) -> bytes:
    return f"event: {event.type}\ndata: {_ENCODER.encode(event_json(event))}\n\n".encode()


class TailEvent:
    """An event for several readers, who share its text."""

    def __init__(self, event: LoggedEvent):
        self.event = event

    @cached_property
    def by_id(self) -> bytes:
        """Return the text for streams of sessions."""
        return sent_by_id(self.event)

    @cached_property
    def by_cursor(self) -> bytes:
        """Return the text for streams of job sets."""
        return sent_by_cursor(self.event)
