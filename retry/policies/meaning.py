"""The meanings of the fields of a policy for people, in one place, beside their types and
bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from retry.policies.limits import Unlimited

SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Stands in the annotation of a field; pydantic and JSON Schema pass it over.

    `text` is a clause, `empty` what null or an empty list means, `unit` is `SECONDS` or nothing,
    and `option` is the command's name for the field where that is not the field's own.
    """

    text: str
    empty: str = ""
    unit: str = ""
    option: str = ""


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A field of a policy as forms, the command and docs see it.

    `kind` is the type of the value, or of each item if there are `many`. A number may also be
    `unlimited`.
    """

    name: str
    kind: type
    many: bool
    nullable: bool
    unlimited: bool
    default: Any
    meaning: Meaning


def fields_of(model: type[BaseModel]) -> Mapping[str, PolicyField]:
    """Return the fields of a policy model by their names; each must have a `Meaning`."""
    return {name: _read(name, info) for name, info in model.model_fields.items()}


def _read(name: str, info: FieldInfo) -> PolicyField:
    kind, *others = _alternatives(info.annotation)
    many = get_origin(kind) in {tuple, frozenset}
    return PolicyField(
        name=name,
        kind=_bare(get_args(kind)[0]) if many else kind,
        many=many,
        nullable=NoneType in others,
        unlimited=_bare(Unlimited) in others,
        default=info.get_default(),
        meaning=next(each for each in info.metadata if isinstance(each, Meaning)),
    )


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types of an annotation's values: that of a field, then what may replace it."""
    bare = _bare(annotation)
    if get_origin(bare) not in {Union, UnionType}:
        return [bare]
    return [kind for each in get_args(bare) for kind in _alternatives(each)]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
