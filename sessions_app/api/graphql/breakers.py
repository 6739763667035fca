"""Breakers in GraphQL."""

from functools import partial
from typing import Any
from uuid import UUID

import graphene

from sessions_app.api.graphql import scalars
from sessions_app.api.graphql.connections import Page, connection_to, one, page_of, pages
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.errors import read_arguments
from sessions_app.api.graphql.nodes import RestObject, uuid_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.shapes import arguments_of, shape_of
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.render.breaker_render import breaker_events_json, breakers_json
from sessions_app.api.requests.breakers import BreakerFilter
from sessions_app.api.shapes import breaker_shapes as shapes
from sessions_app.authorization import Actor
from sessions_app.models import Breaker as Row
from sessions_app.selectors.breakers import breaker_events, breaker_get, breakers_listed

_Shape: Any = shape_of(shapes.Breaker)


class Breaker(_Shape, RestObject):
    """A signature of failures whose retries wait while its breaker is open."""


BreakerConnection = connection_to(Breaker)
_EventShape: Any = shape_of(shapes.BreakerEvent)


class BreakerEvent(_EventShape, RestObject):
    """A breaker opened or closed."""


BreakerEventConnection = connection_to(BreakerEvent)


class BreakerQueries:
    """The root fields of breakers."""

    breaker = one(Breaker, "One breaker.", id=graphene.Argument(scalars.UUID, required=True))
    breakers = pages(
        BreakerConnection,
        "Breakers, open and closed ones: those of projects, and the cluster's.",
        **arguments_of(BreakerFilter),
    )

    breaker_events = pages(
        BreakerEventConnection,
        "When a breaker opened and closed, and why: the newest first.",
        id=graphene.Argument(scalars.UUID, required=True),
    )

    @staticmethod
    def resolve_breaker_events(_root: None, info: Any, id: str, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        found = breaker_get(actor, uuid_of("Breaker", id))
        render = partial(breaker_events_json, actor, found)
        return page_of(BreakerEvent, breaker_events(found), RowCursor("-seq"), page, render)

    @staticmethod
    def resolve_breaker(_root: None, info: Any, id: str) -> Peer[Row]:
        """Return one breaker."""
        return breaker_peer(actor_of(info), uuid_of("Breaker", id))

    @staticmethod
    def resolve_breakers(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        given = read_arguments(BreakerFilter, asked)
        wanted = given.apply(actor, breakers_listed(actor))
        cursor = RowCursor("-opened_at", unique=False)
        return page_of(Breaker, wanted, cursor, page, partial(breakers_json, actor))


def breaker_peer(actor: Actor, breaker_id: UUID) -> Peer[Row]:
    """Return a breaker as the source of its object."""
    return single_peer(Breaker, breaker_get(actor, breaker_id), partial(breakers_json, actor))
