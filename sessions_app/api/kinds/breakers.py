"""Breakers."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from sessions_app.api.kinds.resource import Call, Listing, Resource
from sessions_app.api.render.breaker_render import breakers_json
from sessions_app.api.requests.breakers import BreakerClose, BreakerFilter, BreakerOpen
from sessions_app.api.shapes import breaker_shapes as shapes
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
        action=Action.BREAKER_LIST,
        says="List breakers, open and closed ones: those of projects, and the cluster's.",
        rows=breakers_listed,
        query=BreakerFilter,
        order=["-opened_at"],
        unique=False,
    ),
    read=Call(action=Action.BREAKER_READ, says="One breaker.", run=breaker_get),
    create=Call(
        action=Action.BREAKER_WRITE,
        says="Open the breaker of a signature: retries of such failures wait until it closes.",
        run=open_by_hand,
        body=BreakerOpen,
        named="breaker_open",
    ),
    acts={
        "close": Call(
            action=Action.BREAKER_WRITE,
            says="Close a breaker: what it held goes on, at the pace of the storm limits.",
            run=close,
            body=BreakerClose,
        ),
        "mute": Call(
            action=Action.BREAKER_WRITE,
            says="Mute a breaker: it does not open by itself any more. One that is open stays "
            "open.",
            run=partial(mute, muted=True),
        ),
        "unmute": Call(
            action=Action.BREAKER_WRITE,
            says="Take back the muting of a breaker: it opens by itself again.",
            run=partial(mute, muted=False),
        ),
    },
)
