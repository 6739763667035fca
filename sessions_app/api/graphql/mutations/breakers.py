"""Mutations of breakers."""

from typing import Any

import graphene

from sessions_app.api.graphql import scalars
from sessions_app.api.graphql.breakers import Breaker, breaker_peer
from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change
from sessions_app.api.graphql.nodes import uuid_of
from sessions_app.api.graphql.peers import Peer
from sessions_app.api.kinds import breakers as operations
from sessions_app.api.requests.breakers import BreakerClose, BreakerOpen
from sessions_app.models import Breaker as Row


class OpenBreaker(Change, body=BreakerOpen):
    """Open the breaker of a signature: retries of such failures wait until it closes."""

    breaker = graphene.Field(Breaker)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        found = operations.open_by_hand(context.actor, given)
        return {"breaker": breaker_peer(context.actor, found.pk)}


class OfBreaker:
    """The input field that names a breaker."""

    id = graphene.Field(scalars.UUID, required=True)


class CloseBreaker(Change, body=BreakerClose):
    """Close a breaker: what it held goes on, at the pace of the storm limits."""

    Input = OfBreaker
    breaker = graphene.Field(Breaker)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        breaker_id = uuid_of("Breaker", given.pop("id"))
        operations.close(context.actor, breaker_id, given)
        return {"breaker": breaker_peer(context.actor, breaker_id)}


class MuteBreaker(Change):
    """Mute a breaker: it does not open by itself any more. One that is open stays open."""

    Input = OfBreaker
    breaker = graphene.Field(Breaker)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"breaker": _muted(context, given, muted=True)}


class UnmuteBreaker(Change):
    """Take back the muting of a breaker: it opens by itself again."""

    Input = OfBreaker
    breaker = graphene.Field(Breaker)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"breaker": _muted(context, given, muted=False)}


def _muted(context: Context, given: dict[str, Any], *, muted: bool) -> Peer[Row]:
    breaker_id = uuid_of("Breaker", given["id"])
    operations.mute(context.actor, breaker_id, muted=muted)
    return breaker_peer(context.actor, breaker_id)


class BreakerMutations:
    """The mutations of breakers."""

    open_breaker = OpenBreaker.Field()
    close_breaker = CloseBreaker.Field()
    mute_breaker = MuteBreaker.Field()
    unmute_breaker = UnmuteBreaker.Field()
