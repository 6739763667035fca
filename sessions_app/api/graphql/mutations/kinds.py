"""The bases of mutations of plain kinds. A mutation names its kind, which declares the rest.

What a mutation says is its docstring, or else the sentence of its kind. Further fields of the
payload are fields of the class, and `more` fills them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.kinds import IfMatch, Kind
from sessions_app.api.graphql.mutations.base import Change, Deletion, expected_of
from sessions_app.api.kinds.resource import Call


class KindChange(Change, abstract=True):
    """The base of all of them."""

    kind: ClassVar[Kind]
    call: ClassVar[Any]
    shows: ClassVar[bool]

    @classmethod
    def declare(
        cls,
        kind: Kind,
        call: Call | None,
        *,
        named: bool = True,
        guarded: bool = True,
        shows: bool = True,
        **options: Any,
    ) -> None:
        """Make the input and the payload of a mutation that makes this call.

        The input names the object if it is `named`, and has `ifMatch` if it is `guarded` and the
        kind has versions. The payload has the object if it `shows` it.
        """
        cls.kind, cls.call, cls.shows = kind, call, shows
        body, said = (call.body, call.says) if call else (None, "")
        fields: Mapping[str, Any] = kind.naming.fields if named else {}
        if guarded and kind.of.version:
            fields = {"if_match": IfMatch.if_match, **fields}
        if shows:
            setattr(cls, kind.of.name, kind.field)
        if call and call.creates:
            cls.created = graphene.Boolean()
        options = {"body": body, "description": None if cls.__doc__ else said} | options
        super().__init_subclass_with_meta__(named_by=fields, **options)

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

    @classmethod
    def __init_subclass_with_meta__(cls, of: Kind, **options: Any) -> None:
        cls.declare(of, of.of.create, named=False, guarded=False, **options)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return cls.payload(context, cls.call.run(context.actor, given))


class UpdateOf(KindChange, abstract=True):
    """Changes the given fields of an object."""

    @classmethod
    def __init_subclass_with_meta__(cls, of: Kind, **options: Any) -> None:
        cls.declare(of, of.of.patch, **options)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, key = cls.expected(given), cls.key(given)
        return cls.payload(context, cls.call.run(context.actor, *key, given, *expected))


class ReplaceOf(UpdateOf, abstract=True):
    """Replaces an object, or creates it if the kind can be created so."""

    @classmethod
    def __init_subclass_with_meta__(cls, of: Kind, **options: Any) -> None:
        cls.declare(of, of.of.put, **options)

    @classmethod
    def payload(cls, context: Context, result: Any) -> dict[str, Any]:
        if not cls.call.creates:
            return super().payload(context, result)
        row, created = result
        return {**super().payload(context, row), "created": created}


class DeleteOf(KindChange, Deletion, abstract=True):
    """Deletes an object."""

    @classmethod
    def __init_subclass_with_meta__(cls, of: Kind, **options: Any) -> None:
        cls.declare(of, of.of.delete, shows=False, **options)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, names = cls.expected(given), cls.kind.naming.taken(given)
        cls.call.run(context.actor, *cls.kind.of.key(**names), *expected)
        key = "/".join(str(name) for name in names.values())
        return {"deleted_id": to_global_id(cls.kind.type.__name__, key)}


class ActOf(KindChange, abstract=True):
    """Does something to an object."""

    @classmethod
    def __init_subclass_with_meta__(cls, of: Kind, act: str, **options: Any) -> None:
        cls.declare(of, of.of.acts[act], guarded=False, **options)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = cls.key(given)
        sent = (given,) if cls.call.body else ()
        return cls.payload(context, cls.call.run(context.actor, *key, *sent))
