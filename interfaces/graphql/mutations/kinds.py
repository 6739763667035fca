"""The bases of mutations of plain kinds. A mutation names its kind, which declares the rest.

What a mutation says is its docstring, or else the sentence of its kind. Further fields of the
payload are fields of the class, and `more` fills them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import graphene
from graphql_relay import to_global_id

from interfaces.graphql.context import Context
from interfaces.graphql.kinds import IfMatch, Kind
from interfaces.graphql.mutations.base import Change, Deletion, expected_of
from interfaces.kinds.resource import Resource


class KindChange(Change, abstract=True):
    """The base of all of them.

    A class takes `of`, its kind, and `act` if it does one of the kind's `acts`; other options are
    those of `Change`.
    """

    kind: ClassVar[Kind]
    call: ClassVar[Any]
    named: ClassVar[bool] = True
    """Whether the input names the object."""
    guarded: ClassVar[bool] = True
    """Whether the input has `ifMatch`, if the kind has versions."""
    shows: ClassVar[bool] = True
    """Whether the payload has the object."""

    @classmethod
    def __init_subclass_with_meta__(cls, *_: Any, **options: Any) -> None:
        """Make the input and the payload when graphene defines the class."""
        cls.kind = options.pop("of")
        cls.call = call = cls.declared(cls.kind.of, options.pop("act", ""))
        fields: Mapping[str, Any] = cls.kind.naming.fields if cls.named else {}
        if cls.guarded and cls.kind.of.version:
            fields = {"if_match": IfMatch.if_match, **fields}
        if cls.shows:
            setattr(cls, cls.kind.of.name, cls.kind.field)
        if call.creates:
            cls.created = graphene.Boolean()
        said = {"body": call.body, "description": None if cls.__doc__ else call.says}
        super().__init_subclass_with_meta__(named_by=fields, **(said | options))

    @classmethod
    def declared(cls, of: Resource, act: str) -> Any:
        """Return the call that the mutation makes."""
        raise NotImplementedError

    @classmethod
    def key(cls, given: dict[str, Any]) -> tuple[Any, ...]:
        """Take the key of the object out of the input."""
        return cls.kind.of.key(**cls.kind.naming.taken(given))

    @classmethod
    def expected(cls, given: dict[str, Any]) -> tuple[Any, ...]:
        """Take the expected version out of the input, if the kind has versions."""
        return (expected_of(given),) if cls.kind.of.version else ()

    @classmethod
    def payload(cls, context: Context, result: Any) -> dict[str, Any]:
        """Return the fields of the payload for what the call returned."""
        more = cls.more(context, result)
        if not cls.shows:
            return more
        return {cls.kind.of.name: cls.kind.peer(context.actor, cls.call.row(result)), **more}

    @classmethod
    def more(cls, _context: Context, _result: Any) -> dict[str, Any]:
        """Return the fields of the payload that this mutation has beside the object."""
        return {}


class CreateOf(KindChange, abstract=True):
    """Creates an object."""

    named = False
    guarded = False

    @classmethod
    def declared(cls, of: Resource, _act: str) -> Any:
        return of.create

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return cls.payload(context, cls.call.run(context.actor, given))


class UpdateOf(KindChange, abstract=True):
    """Changes the given fields of an object."""

    @classmethod
    def declared(cls, of: Resource, _act: str) -> Any:
        return of.patch

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, key = cls.expected(given), cls.key(given)
        return cls.payload(context, cls.call.run(context.actor, *key, given, *expected))


class ReplaceOf(UpdateOf, abstract=True):
    """Replaces an object, or creates it if the kind can be created so."""

    @classmethod
    def declared(cls, of: Resource, _act: str) -> Any:
        return of.put

    @classmethod
    def payload(cls, context: Context, result: Any) -> dict[str, Any]:
        if not cls.call.creates:
            return super().payload(context, result)
        row, created = result
        return {**super().payload(context, row), "created": created}


class DeleteOf(KindChange, Deletion, abstract=True):
    """Deletes an object."""

    shows = False

    @classmethod
    def declared(cls, of: Resource, _act: str) -> Any:
        return of.delete

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, names = cls.expected(given), cls.kind.naming.taken(given)
        cls.call.run(context.actor, *cls.kind.of.key(**names), *expected)
        key = "/".join(str(name) for name in names.values())
        return {"deleted_id": to_global_id(cls.kind.type.__name__, key)}


class ActOf(KindChange, abstract=True):
    """Does something to an object."""

    guarded = False

    @classmethod
    def declared(cls, of: Resource, act: str) -> Any:
        return of.acts[act]

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = cls.key(given)
        sent = (given,) if cls.call.body else ()
        return cls.payload(context, cls.call.run(context.actor, *key, *sent))
