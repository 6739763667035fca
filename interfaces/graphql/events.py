"""Events of sessions in GraphQL."""

from collections.abc import Sequence
from typing import Any

from interfaces.graphql.connections import Page, connection_to
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.peers import Peers, one_by_one
from interfaces.graphql.scalars import BigInt
from interfaces.graphql.shapes import shape_of
from interfaces.shapes import session_shapes as shapes
from sessions_app.core.errors import NotFound
from sessions_app.eventlog.event_json import event_json

_EventShape: Any = shape_of(shapes.Event, kinds={"id": BigInt})


class Event(_EventShape, RestObject):
    """An event of a session. A stream of a session continues after an `id`, a stream of a job set
    after a `cursor`."""


EventConnection = connection_to(Event)


def event_peers(rows: Sequence[Any]) -> Peers[Any]:
    """Return peers of events that were read together."""
    return Peers(Event, rows, one_by_one(event_json))


def id_behind(page: Page) -> int:
    """Return the id of the event after which a page begins. Raises `NotFound`."""
    text = page.after or "0"
    if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**63):
        raise NotFound("the cursor is invalid")
    return int(text)
