"""Mutations of breakers."""

from typing import Any

import graphene

from sessions_app.api.graphql import scalars
from sessions_app.api.graphql.breakers import Breaker, breaker_peer
from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change
from sessions_app.api.graphql.nodes import uuid_of
from sessions_app.api.operations import breakers as operations
from sessions_app.api.requests.breakers import BreakerClose, BreakerOpen


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


class BreakerMutations:
    """The mutations of breakers."""

    open_breaker = OpenBreaker.Field()
    close_breaker = CloseBreaker.Field()
