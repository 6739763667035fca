"""GraphQL types made from the shapes that REST documents, so that the fields are listed once."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import graphene
from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from interfaces.graphql import scalars
from interfaces.graphql.peers import field_of

_SCALARS: dict[Any, Any] = {
    str: graphene.String,
    int: graphene.Int,
    float: graphene.Float,
    bool: graphene.Boolean,
    datetime: scalars.DateTime,
    AwareDatetime: scalars.DateTime,
    UUID: scalars.UUID,
}
_made: dict[type[BaseModel], Any] = {}
Kinds = Mapping[str, Any]
"""More exact GraphQL types of some fields, by field name."""


def shape_of(
    shape: type[BaseModel], *, leave_out: Collection[str] = (), kinds: Kinds | None = None
) -> Any:
    """Return a base of GraphQL types with the fields of `shape`."""
    fields = {
        name: graphene.Field(_kind_of(field.annotation, (kinds or {}).get(name)), name=field.alias)
        for name, field in shape.model_fields.items()
        if name not in leave_out
    }
    return type(f"{shape.__name__}Shape", (), fields)


def type_of(shape: type[BaseModel], *, name: str | None = None, kinds: Kinds | None = None) -> Any:
    """Return the GraphQL type of a part of an answer. There is one for each shape."""
    if shape not in _made:
        meta = {"name": name or shape.__name__, "default_resolver": field_of}
        attributes = {"Meta": type("Meta", (), meta), "__doc__": shape.__doc__}
        _made[shape] = type(
            shape.__name__, (shape_of(shape, kinds=kinds), graphene.ObjectType), attributes
        )
    return _made[shape]


def filter_of(
    model: type[BaseModel], *, leave_out: Collection[str] = (), kinds: Kinds | None = None
) -> Any:
    """Return a base of GraphQL input types with the fields of the model that checks them."""
    fields = {
        name: _input(field, (kinds or {}).get(name))
        for name, field in model.model_fields.items()
        if name not in leave_out
    }
    return type(f"{model.__name__}Fields", (), fields)


def _input(field: FieldInfo, kind: Any) -> Any:
    found = _kind_of(field.annotation, kind)
    if isinstance(found, graphene.NonNull) and not field.is_required():
        found = found.of_type
    return graphene.InputField(found)


def _kind_of(annotation: Any, kind: Any = None) -> Any:
    """Return the GraphQL type of an annotation; `kind` is the type of its content, if known."""
    if get_origin(annotation) in {Union, UnionType} and type(None) in get_args(annotation):
        (inner, *others) = [each for each in get_args(annotation) if each is not type(None)]
        found = _kind_of(scalars.JSON if others else inner, kind)
        return found.of_type if isinstance(found, graphene.NonNull) else found
    if annotation is Any:
        return kind or scalars.JSON
    return graphene.NonNull(_plain(annotation, kind))


def _plain(annotation: Any, kind: Any) -> Any:
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(arguments[0], kind)
    if origin is list:
        return graphene.List(_kind_of(arguments[0], kind))
    if kind is not None:
        return kind
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return type_of(annotation)
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return graphene.String
    return _SCALARS.get(annotation, scalars.JSON)


def arguments_of(
    model: type[BaseModel], *, whole: bool = False, kinds: Kinds | None = None
) -> dict[str, Any]:
    """Return a model's fields as arguments, without those of a page.

    With `whole`, object fields are taken as JSON, like in REST.
    """
    found = {
        field.alias or name: _kind_of(
            _whole(field.annotation) if whole else field.annotation, (kinds or {}).get(name)
        )
        for name, field in model.model_fields.items()
        if name not in {"cursor", "page_size"}
    }
    return {name: graphene.Argument(_optional(kind)) for name, kind in found.items()}


def _whole(annotation: Any) -> Any:
    """Return the annotation with objects replaced by JSON values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Any
    if get_origin(annotation) is list:
        return list[Any]
    inner = [each for each in get_args(annotation) if each is not type(None)]
    return _whole(inner[0]) if inner else annotation


def _optional(kind: Any) -> Any:
    return kind.of_type if isinstance(kind, graphene.NonNull) else kind


def stands_for(shape: type[BaseModel], kind: Any) -> None:
    """Make `kind` the GraphQL type of a shape wherever that is part of another."""
    _made[shape] = kind
