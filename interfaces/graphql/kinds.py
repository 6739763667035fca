"""GraphQL's side of plain kinds: what root fields and mutations need beside the declaration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import graphene

from interfaces.graphql.connections import Page, one, page_of, pages
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.nodes import RestNode, found_by, uuid_of
from interfaces.graphql.peers import Peer, single_peer
from interfaces.graphql.shapes import arguments_of
from interfaces.http.paging import RowCursor
from interfaces.kinds.resource import Resource
from sessions_app.authorization import Actor

ID_HELP = "The global id or REST's id."
Names = dict[str, Any]
"""The names in REST's address of an object."""


class IfMatch:
    """The input field that guards against concurrent changes. It comes before those that name."""

    if_match = graphene.String(
        description="The `version` to change. If it is outdated, the call is refused as `OUTDATED`."
    )


class KindNode(RestNode):
    """The base of the types of plain kinds that have a global id."""

    class Meta:
        abstract = True

    of: ClassVar[Resource]

    @staticmethod
    def resolve_id(source: Peer[Any], _info: Any) -> str:
        """Return the key of the object."""
        kind: Any = source.kind
        key: str = kind.of.at(source.row)
        return key

    @staticmethod
    def resolve_version(source: Peer[Any], _info: Any) -> str:
        """Return the version of the object, which `ifMatch` takes."""
        kind: Any = source.kind
        version: str = kind.of.version(source.row)
        return version


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of one object of a kind in GraphQL."""

    fields: Mapping[str, Any]
    """The fields of an input that name it."""
    taken: Callable[[dict[str, Any]], Names]
    """Takes the names out of an input."""
    read: Callable[[str], Names]
    """Reads the names in a key. Raises `NotFound`."""


BY_NAME = Naming(
    {"name": graphene.String(required=True)},
    lambda given: {"name": given.pop("name")},
    lambda key: {"name": key},
)


def by_id(read: Callable[[str], Any]) -> Naming:
    """Return the naming by a global id or REST's id, which `read` makes of either."""
    return Naming(
        {"id": graphene.ID(required=True, description=ID_HELP)},
        lambda given: {"id": read(given.pop("id"))},
        lambda key: {"id": read(key)},
    )


def by_uuid(kind: str) -> Naming:
    """Return the naming by the global id of a type, or by a UUID."""
    return by_id(partial(uuid_of, kind))


class Kind:
    """A plain kind in GraphQL. `node(id)` finds its objects if its type has global ids."""

    def __init__(self, of: Resource, type: Any, naming: Naming):
        self.of = of
        self.type = type
        self.naming = naming
        self.field = graphene.Field(type)
        if issubclass(type, RestNode):
            found_by(type.__name__)(self.found)

    def peer(self, actor: Actor, row: Any) -> Peer[Any]:
        """Return an object as the source of its GraphQL object."""
        return single_peer(self.type, row, partial(self.of.render, actor))

    def found(self, actor: Actor, key: str) -> Peer[Any]:
        """Return the object with this key. Raises `NotFound`, `NotPermitted`."""
        read: Any = self.of.read
        names = self.of.key(**self.naming.read(key))
        return self.peer(actor, read.run(actor, *names, read.action))


def one_of(kind: Kind, says: str = "", **arguments: Any) -> graphene.Field:
    """Return the root field of one object. The arguments together are its key."""
    read: Any = kind.of.read

    def resolve(_root: None, info: Any, **asked: str) -> Peer[Any]:
        return kind.found(actor_of(info), "/".join(asked.values()))

    return one(kind.type, says or read.says, resolver=resolve, **arguments)


def pages_of(
    kind: Kind, connection: Any, says: str = "", kinds: Mapping[str, Any] | None = None
) -> graphene.Field:
    """Return the root field of a list. `kinds` are more exact types of some of its filters."""
    listing: Any = kind.of.listing

    def resolve(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = listing.rows(actor)
        wanted = read_arguments(listing.query, asked).apply(actor, rows)
        order = RowCursor(*listing.order, unique=listing.unique)
        return page_of(kind.type, wanted, order, page, partial(kind.of.render, actor))

    named = listing.says.removeprefix("List ")
    text = says or f"{named[0].upper()}{named[1:]}"
    return pages(connection, text, resolver=resolve, **arguments_of(listing.query, kinds=kinds))
