"""GraphQL inputs made from the models that check REST's bodies, so that the fields are listed once.

Input that fits GraphQL's types is then checked by the model, so that there is one set of rules.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import graphene
from graphene.utils.str_converters import to_camel_case
from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo

from interfaces.graphql import enums, scalars
from interfaces.graphql.errors import camel
from retry.engine.decide import Mode
from retry.evidence.causes import RetryCause
from retry.policies.inline import InlinePolicy
from sessions_app.core.states import RetryState, Status
from sessions_app.models.tenants import Role

_KINDS: dict[Any, Any] = {
    str: graphene.String,
    int: graphene.Int,
    float: graphene.Float,
    bool: graphene.Boolean,
    UUID: scalars.UUID,
    AwareDatetime: scalars.DateTime,
    RetryCause: enums.RetryCause,
    RetryState: enums.RetryStateName,
    Status: enums.SessionStatus,
    Mode: enums.RetryMode,
    Role: enums.Role,
}
_LITERALS = {
    frozenset({"batch", "interactive", "inference"}): enums.SessionType,
    frozenset({"failed", "delivered", "all"}): enums.enumeration(
        "RedeliveredState",
        ("failed", "delivered", "all"),
        "The state of the deliveries to send again.",
    ),
}
_LISTS = (list, tuple, frozenset)
_made: dict[type[BaseModel], Any] = {}


def input_fields(model: type[BaseModel], kinds: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the fields of a model by their names in a body; `kinds` are types of known fields."""
    return {
        field.alias or name: _input(field, (kinds or {}).get(name))
        for name, field in model.model_fields.items()
    }


def output_fields(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's fields for an answer that may be sent again; all may be null."""
    return {
        name: graphene.Field(_kind_of(field.annotation))
        for name, field in model.model_fields.items()
    }


NULLABLE = tuple(
    name
    for name, field in InlinePolicy.model_fields.items()
    if type(None) in get_args(field.annotation)
)
"""The fields of an inline policy that accept null as a value."""
PolicyNull = enums.enumeration(
    "PolicyNull",
    [to_camel_case(name) for name in NULLABLE],
    "A field of an inline policy for which null is a value.",
)


def _policy_given(values: dict[str, Any]) -> dict[str, Any]:
    """Return an inline policy without the fields whose null means "not set"."""
    named = values.pop("nulls", None)
    kept = [name for name in NULLABLE if named is None or to_camel_case(name) in named]
    given = {name: value for name, value in values.items() if value is not None or name in kept}
    return given if named is None else dict.fromkeys(kept) | given


def input_of(
    model: type[BaseModel], *, name: str | None = None, description: str | None = None
) -> Any:
    """Return the GraphQL input of a part of a body. There is one for each model."""
    if model not in _made:
        attributes = {**input_fields(model), "__doc__": description or _described(model)}
        if model is InlinePolicy:
            attributes["nulls"] = graphene.List(graphene.NonNull(PolicyNull), description=_NULLS)
        _made[model] = type(
            name or f"{model.__name__}Input", (graphene.InputObjectType,), attributes
        )
    return _made[model]


_NULLS = (
    "The fields that are set to null. If `nulls` is given, all other null fields are not set. "
    "Without it, null is a value for every field that allows it."
)
_QUOTED = re.compile(r"`[a-z_]+`")


def _described(kind: type) -> str | None:
    """Return the docstring of a class, with the GraphQL names of fields."""
    return _QUOTED.sub(lambda name: str(to_camel_case(name[0])), kind.__doc__ or "") or None


def _input(field: FieldInfo, kind: Any) -> Any:
    found = kind or _kind_of(field.annotation)
    return graphene.InputField(graphene.NonNull(found) if field.is_required() else found)


def _kind_of(annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind_of(arguments[0])
    if origin in {Union, UnionType}:
        return _one_of([each for each in arguments if each is not type(None)])
    if origin in _LISTS:
        return graphene.List(graphene.NonNull(_kind_of(arguments[0])))
    if origin is Literal:
        return _LITERALS.get(frozenset(arguments), graphene.String)
    if annotation not in _KINDS and isinstance(annotation, type):
        _know(annotation)
    return _KINDS.get(annotation, scalars.JSON)


def _one_of(kinds: list[Any]) -> Any:
    if len(kinds) == 1:
        return _kind_of(kinds[0])
    plain = {_kind_of(each) for each in kinds}
    return graphene.Float if plain == {graphene.Int, graphene.Float} else scalars.JSON


def _know(kind: type) -> None:
    """Make the GraphQL type of a model or an enumeration when it is first used."""
    if issubclass(kind, BaseModel):
        _KINDS[kind] = input_of(kind)
    elif issubclass(kind, Enum):
        _KINDS[kind] = enums.enumeration(kind.__name__, kind, kind.__doc__ or kind.__name__)


def plain(value: Any) -> Any:
    """Return an input as the JSON value that REST would get."""
    if isinstance(value, dict):
        # A field of graphene's dict may have the name of a dict method.
        values = {key: plain(item) for key, item in dict.items(value)}
        return _policy_given(values) if isinstance(value, input_of(InlinePolicy)) else values
    return [plain(item) for item in value] if isinstance(value, list) else value


_STEP = re.compile(r"\.?([^.\[]+)|\[\d+\]")


def path_of(model: type[BaseModel] | None, path: str) -> str:
    """Return the GraphQL path of a field. Names inside of JSON values are the sender's own.

    `model` is the model of what was sent.
    """
    found, rest, at = "", path, model
    while at is not None and (step := _STEP.match(rest)):
        name, rest = step[1], rest[step.end() :]
        if name is None:
            found += step[0]
            continue
        known = _fields_of(at).get(name)
        if known is None and found:
            return f"{found}.{name}{rest}"
        found += f".{to_camel_case(name)}" if found else to_camel_case(name)
        at = _model_in([known.annotation]) if known else None
    return found + rest if found else camel(path)


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    fields = model.model_fields
    return {**fields, **{each.alias: each for each in fields.values() if each.alias}}


def _model_in(annotations: Iterable[Any]) -> type[BaseModel] | None:
    """Return the model in an annotation, which may also be a list of it."""
    for each in annotations:
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
        if get_origin(each) is not dict and (found := _model_in(get_args(each))):
            return found
    return None
