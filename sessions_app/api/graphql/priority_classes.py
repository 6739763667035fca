"""Priority classes in GraphQL."""

from functools import partial
from typing import Any

import graphene

from sessions_app.api.graphql.connections import Page, connection_to, one, page_of, pages
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.nodes import RestNode, found_by
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.policies import VERSION
from sessions_app.api.graphql.shapes import shape_of
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.render.policy_render import priority_classes_json
from sessions_app.api.shapes import policy_shapes as shapes
from sessions_app.authorization import Action, Actor
from sessions_app.models import PriorityClass as Row
from sessions_app.selectors.priority_classes import priority_class_get, priority_classes_listed
from sessions_app.services.resources.priority_classes import priority_class_version

_Shape: Any = shape_of(shapes.PriorityClass)


class PriorityClass(_Shape, RestNode):
    """A priority class: sessions of a higher value go first within their queue."""

    version = graphene.String(required=True, description=VERSION)

    @staticmethod
    def resolve_id(source: Peer[Row], _info: Any) -> str:
        return source.row.name

    @staticmethod
    def resolve_version(source: Peer[Row], _info: Any) -> str:
        """Return its version, which `ifMatch` takes."""
        return priority_class_version(source.row)


PriorityClassConnection = connection_to(PriorityClass)


class PriorityClassQueries:
    """The root fields of priority classes."""

    priority_class = one(PriorityClass, "One priority class.", name=graphene.String(required=True))
    priority_classes = pages(PriorityClassConnection, "The priority classes, lowest value first.")

    @staticmethod
    def resolve_priority_class(_root: None, info: Any, name: str) -> Peer[Row]:
        return priority_class_found(actor_of(info), name)

    @staticmethod
    def resolve_priority_classes(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows, render = priority_classes_listed(actor), partial(priority_classes_json, actor)
        return page_of(PriorityClass, rows, RowCursor("value"), page, render)


@found_by("PriorityClass")
def priority_class_found(actor: Actor, name: str) -> Peer[Row]:
    """Return a priority class by its name."""
    found = priority_class_get(actor, name, Action.PRIORITY_CLASS_READ)
    return single_peer(PriorityClass, found, partial(priority_classes_json, actor))
