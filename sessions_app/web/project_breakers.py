"""The open breakers that hold retries of a project, on its page of failures."""

from typing import Any
from uuid import UUID

from sessions_app.api.render.breaker_render import breakers_json
from sessions_app.authorization import Action
from sessions_app.core.errors import NotFound
from sessions_app.selectors.breakers import breaker_get, breakers_open_for
from sessions_app.services.breakers.acts import breaker_close
from sessions_app.web.project_frame import Place

MOST = 20
"""Breakers that the page shows."""


def breakers_shown(place: Place) -> list[dict[str, Any]]:
    """Return the open breakers of a project, its queues and the cluster, newest first.

    `closable` says whether the visitor may close it. It takes two statements, and one if none is
    open.
    """
    found = breakers_open_for(place.actor, place.project, MOST)
    if not found:
        return []
    own, whole = place.may(Action.BREAKER_WRITE), place.actor.is_cluster_admin
    return [
        {**each, "closable": own if each["project"] else whole}
        for each in breakers_json(place.actor, found)
    ]


def breaker_close_asked(place: Place, asked: str) -> None:
    """Close a breaker by its id. Raises `NotFound`, `NotPermitted`."""
    try:
        found = breaker_get(place.actor, UUID(asked), Action.BREAKER_WRITE)
    except ValueError as error:
        raise NotFound("no such breaker") from error
    breaker_close(found.pk, reason="closed on the page", mute=False, by=place.actor.name)
