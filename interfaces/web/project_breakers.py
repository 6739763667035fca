"""The open breakers that hold retries of a project, on its pages of failures."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from interfaces.render.breaker_render import breakers_json
from interfaces.web.project_frame import Place
from sessions_app.authorization import Action, authorize
from sessions_app.core.errors import NotFound
from sessions_app.selectors.breakers import breaker_get, breakers_open_for
from sessions_app.selectors.failures import Failure
from sessions_app.services.breakers.acts import breaker_close, breaker_open, breaker_refusal

MOST = 20
"""Breakers that the page shows."""


def breakers_shown(place: Place, signature: str | None = None) -> list[dict[str, Any]]:
    """Return the open breakers of a project, its queues and the cluster, newest first; with a
    `signature` only its own.

    `closable` says whether the visitor may close it. It takes two statements, and one if none is
    open.
    """
    found = breakers_open_for(place.actor, place.project, MOST, signature=signature)
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


def breaker_openable(place: Place, failure: Failure, shown: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the visitor may open a breaker of the project for a failure.

    `shown` are those that are open.
    """
    own = any(each["project"] and not each["queue"] for each in shown)
    refused = own or breaker_refusal(failure.key, failure.cause, muted=failure.muted)
    return not refused and place.may(Action.BREAKER_WRITE)


def breaker_open_asked(place: Place, failure: Failure) -> None:
    """Open the breaker of the project for a failure. Raises `Conflict`, `NotPermitted`."""
    authorize(place.actor, Action.BREAKER_WRITE, project=place.project)
    breaker_open(place.project, None, failure.key, reason="opened on the page", by=place.actor.name)
