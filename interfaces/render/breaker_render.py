"""Renders breakers."""

from collections.abc import Sequence
from typing import Any

from interfaces.render.by_shape import rendered
from interfaces.shapes import breaker_shapes as shapes
from sessions_app.authorization import Actor
from sessions_app.eventlog.event_json import without_person
from sessions_app.models import Breaker, SessionEvent
from sessions_app.selectors.breakers import breakers_hold_counts


def breakers_json(actor: Actor, breakers: Sequence[Breaker]) -> list[dict[str, Any]]:
    """Return breakers, read as `breakers_listed` does, with what they hold, in one statement."""
    held = breakers_hold_counts(breakers)
    return [_breaker(each, held.get(str(each), 0), actor) for each in breakers]


def breaker_events_json(
    actor: Actor, breaker: Breaker, events: Sequence[SessionEvent]
) -> list[dict[str, Any]]:
    """Return the events of a breaker."""
    whole = _sees_whole(actor, breaker)
    return [_event(each, whole=whole) for each in events]


def _event(event: SessionEvent, *, whole: bool) -> dict[str, Any]:
    data = event.data if whole else without_person(event.data)
    return rendered(
        shapes.BreakerEvent,
        event,
        at=event.time,
        type=event.type.removeprefix("breaker."),
        reason=data["reason"],
        by=data["by"],
        chains=data["chains"],
    )


def _sees_whole(actor: Actor, breaker: Breaker) -> bool:
    """Return whether somebody sees all of a breaker.

    The cluster's breakers are seen by everybody, people and sessions of others are not.
    """
    return breaker.project is not None or actor.is_cluster_admin


def _breaker(breaker: Breaker, held: int, actor: Actor) -> dict[str, Any]:
    whole = _sees_whole(actor, breaker)
    return rendered(
        shapes.Breaker,
        breaker,
        project=breaker.project.address if breaker.project else None,
        queue=breaker.queue.name if breaker.queue else None,
        title=getattr(breaker, "title", None) or "",
        held=held,
        reason=breaker.reason if whole or not (breaker.opened_by or breaker.closed_by) else "",
        opened_by=breaker.opened_by if whole else "",
        closed_by=breaker.closed_by if whole else "",
        probe=breaker.probe if whole else None,
    )
