"""Breakers."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from interfaces.kinds.resource import Call, Listing, Resource
from interfaces.render.breaker_render import breakers_json
from interfaces.requests.breakers import BreakerClose, BreakerFilter, BreakerOpen
from interfaces.shapes import breaker_shapes as shapes
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.models import Breaker
from sessions_app.selectors.breakers import breaker_get, breaker_queue, breakers_listed
from sessions_app.selectors.sessions import project_resolve
from sessions_app.services.breakers.acts import breaker_close, breaker_open, breakers_mute


def open_by_hand(actor: Actor, body: Mapping[str, Any]) -> Breaker:
    """Open the breaker of a signature."""
    asked = BreakerOpen.model_validate(body)
    if asked.project is None:
        project = None
        authorize(actor, Action.BREAKER_WRITE)
    else:
        project = project_resolve(actor, asked.project, Action.BREAKER_WRITE)
    queue = breaker_queue(project, asked.queue)
    made = breaker_open(project, queue, asked.signature, reason=asked.reason, by=actor.name)
    return breaker_get(actor, made.pk)


def close(actor: Actor, breaker_id: UUID, body: Mapping[str, Any]) -> Breaker:
    """Close a breaker, and mute it if that is asked."""
    asked = BreakerClose.model_validate(body)
    found = breaker_get(actor, breaker_id, Action.BREAKER_WRITE)
    breaker_close(found.pk, reason=asked.reason, mute=asked.mute, by=actor.name)
    return breaker_get(actor, breaker_id)


def mute(actor: Actor, breaker_id: UUID, *, muted: bool) -> Breaker:
    """Keep a breaker from opening by itself, or take that back."""
    found = breaker_get(actor, breaker_id, Action.BREAKER_WRITE)
    breakers_mute([found.pk], muted=muted, by=actor.name)
    return breaker_get(actor, breaker_id)


BREAKER = Resource(
    name="breaker",
    many="breakers",
    address="breakers",
    place="<uuid:breaker_id>",
    shape=shapes.Breaker,
    page=shapes.BreakerPage,
    render=breakers_json,
    listing=Listing(
        Action.BREAKER_LIST,
        "List breakers, open and closed ones: those of projects, and the cluster's.",
        breakers_listed,
        ["-opened_at"],
        BreakerFilter,
        unique=False,
    ),
    read=Call(Action.BREAKER_READ, "One breaker.", breaker_get),
    create=Call(
        Action.BREAKER_WRITE,
        "Open the breaker of a signature: retries of such failures wait until it closes.",
        open_by_hand,
        BreakerOpen,
        named="breaker_open",
    ),
    acts={
        "close": Call(
            Action.BREAKER_WRITE,
            "Close a breaker: what it held goes on, at the pace of the storm limits.",
            close,
            BreakerClose,
        ),
        "mute": Call(
            Action.BREAKER_WRITE,
            "Mute a breaker: it does not open by itself any more. One that is open stays open.",
            partial(mute, muted=True),
        ),
        "unmute": Call(
            Action.BREAKER_WRITE,
            "Take back the muting of a breaker: it opens by itself again.",
            partial(mute, muted=False),
        ),
    },
)
