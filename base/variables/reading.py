"""Variables are declared as fields of dataclasses, and read from an environment all at once. Pure.

    @dataclass(frozen=True)
    class Server:
        https: bool = variable(FLAG, False, "whether browsers come by HTTPS only")

The field `https` is the variable `REPRISE_HTTPS`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from base.variables.kinds import Kind, WrongValueError

PREFIX = "REPRISE_"
ALIKE = 0.8
"""Similarity from which an unknown name is taken for a misspelt one."""
_KEY = "variable"

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable.

    `field` is its attribute. `absent` says what its absence means if the default does not.
    """

    field: str
    name: str
    kind: Kind[Any]
    default: Any
    meaning: str
    absent: str


def variable(kind: Kind[T], default: D, meaning: str, *, name: str = "", absent: str = "") -> T | D:
    """Declare a variable. Without `name` it is called `REPRISE_` and the field in capitals."""
    metadata = {_KEY: (kind, meaning, name, absent)}
    return cast("T | D", field(default=default, repr=not kind.secret, metadata=metadata))


def declared(declarations: type[Any]) -> Iterator[Variable]:
    """Yield the variables of a dataclass."""
    for each in fields(declarations):
        kind, meaning, name, absent = each.metadata[_KEY]
        name = name or PREFIX + each.name.upper()
        yield Variable(each.name, name, kind, each.default, meaning, absent)


def read(declarations: type[D], environ: Mapping[str, str]) -> tuple[D, list[str]]:
    """Return the values, and a line for each wrong variable, which has its default instead."""
    values, wrong = {}, []
    for each in declared(declarations):
        text = environ.get(each.name)
        if text is None or (text == "" and not each.kind.refuses_empty):
            continue
        try:
            values[each.field] = each.kind.read(text)
        except WrongValueError as error:
            wrong.append(f"{each.name}: {error}")
    return declarations(**values), wrong


def misspelt(declarations: type[Any], environ: Mapping[str, str]) -> list[str]:
    """Return a line for each undeclared variable with a name close to a declared one.

    Others are ignored: they belong to other parts, or to whoever runs them.
    """
    known = {each.name.removeprefix(PREFIX): each.name for each in declared(declarations)}
    lines = []
    for name in sorted(environ):
        rest = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and rest not in known:
            lines += [
                f"{name} is set, and nothing reads it; did you mean {known[near]}?"
                for near in get_close_matches(rest, known, n=1, cutoff=ALIKE)
            ]
    return lines
