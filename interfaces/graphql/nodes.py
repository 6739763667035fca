"""Relay's global ids: opaque, and sufficient to find an object with `node(id)`."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import graphene
from graphene import relay
from graphql_relay import from_global_id

from interfaces.graphql.context import actor_of
from interfaces.graphql.peers import Peer, field_of
from sessions_app.authorization import Actor
from sessions_app.core.errors import NotFound

Find = Callable[[Actor, str], Peer[Any]]
"""A function that finds an object by its key. Raises `NotFound`."""
_finders: dict[str, Find] = {}


class Node(relay.Node):
    """An object with a global id."""

    class Meta:
        name = "Node"

    @classmethod
    def resolve_type(cls, instance: Peer[Any], _info: Any) -> Any:
        return instance.kind


class RestObject(graphene.ObjectType):
    """The base of types whose fields are those of REST's form."""

    class Meta:
        abstract = True

    @classmethod
    def __init_subclass_with_meta__(cls, **options: Any) -> None:
        super().__init_subclass_with_meta__(**{"default_resolver": field_of, **options})


class RestNode(RestObject):
    """The same for types with a global id."""

    class Meta:
        abstract = True

    @classmethod
    def __init_subclass_with_meta__(cls, **options: Any) -> None:
        super().__init_subclass_with_meta__(interfaces=(Node,), **options)


def found_by(kind: str) -> Callable[[Find], Find]:
    """Register the decorated function as the finder of a type's objects by key."""

    def keep(find: Find) -> Find:
        _finders[kind] = find
        return find

    return keep


def key_of(kind: str, text: str) -> str:
    """Return the key in a global id of this type. Any other text counts as a key itself."""
    found, key = _read(text)
    return key if found == kind else text


def with_session_keys(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields with keys in place of global session ids in the fields `names`."""
    found = {**given}
    for name in names:
        if found.get(name) is not None:
            found[name] = key_of("Session", found[name])
    return found


def uuid_of(kind: str, text: str) -> UUID:
    """Return the key like `key_of`, as a UUID. Raises `NotFound`."""
    try:
        return UUID(key_of(kind, text))
    except ValueError:
        raise NotFound(f"no {kind.lower()} {text[:100]}") from None


def _read(text: str) -> tuple[str, str]:
    try:
        kind, key = from_global_id(text)
    except (ValueError, TypeError):
        return "", ""
    return kind, key


class NodeQueries:
    """The root field `node(id)`."""

    node = graphene.Field(Node, id=graphene.ID(required=True), description="An object by its id.")

    @staticmethod
    def resolve_node(_root: None, info: Any, id: str) -> Peer[Any]:
        kind, key = _read(id)
        if kind not in _finders or not key.isprintable():
            raise NotFound(f"no node {id[:100]}")
        return _finders[kind](actor_of(info), key)
