"""Breakers in GraphQL."""

from functools import partial
from typing import Any

import graphene

from interfaces.graphql import scalars
from interfaces.graphql.connections import Page, connection_to, page_of, pages
from interfaces.graphql.context import actor_of
from interfaces.graphql.kinds import Kind, Naming, one_of, pages_of
from interfaces.graphql.nodes import RestObject, uuid_of
from interfaces.graphql.shapes import shape_of
from interfaces.http.paging import RowCursor
from interfaces.kinds.breakers import BREAKER
from interfaces.render.breaker_render import breaker_events_json
from interfaces.shapes import breaker_shapes as shapes
from sessions_app.selectors.breakers import breaker_events, breaker_get

_Shape: Any = shape_of(shapes.Breaker)


class Breaker(_Shape, RestObject):
    """A signature of failures whose retries wait while its breaker is open."""


BreakerConnection = connection_to(Breaker)
BREAKERS = Kind(
    BREAKER,
    Breaker,
    Naming(
        {"id": graphene.Field(scalars.UUID, required=True)},
        lambda given: {"id": uuid_of("Breaker", given.pop("id"))},
        lambda key: {"id": uuid_of("Breaker", key)},
    ),
)
_EventShape: Any = shape_of(shapes.BreakerEvent)


class BreakerEvent(_EventShape, RestObject):
    """A breaker opened or closed."""


BreakerEventConnection = connection_to(BreakerEvent)


class BreakerQueries:
    """The root fields of breakers."""

    breaker = one_of(BREAKERS, id=graphene.Argument(scalars.UUID, required=True))
    breakers = pages_of(BREAKERS, BreakerConnection)
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
