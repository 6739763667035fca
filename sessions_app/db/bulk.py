"""Whole columns as one parameter of a statement: `FROM unnest(%s::uuid[], %s::text[], ...)`.

A table of few columns is `columns` of tuples; one of five and more is declared once, as `SentRows`.

psycopg escapes the elements of a list one character at a time in Python, which took four fifths of
the time of a bulk settle. An array literal made from whole strings costs a twentieth of that, and a
column of one type, as most are, is written as a whole. orjson writes the JSON, in a twelfth of
the time of the standard library.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType, NoneType
from typing import Any, Generic, ParamSpec
from uuid import UUID

import orjson
from pydantic_core import to_json

Given = ParamSpec("Given")

FEW_IDS = "(SELECT %s::uuid[])::uuid[]"
"""SQL of a parameter of ids, for `= ANY(...)`, that the planner takes for a few, however many they
are. It looks each of them up in the index then, and keeps that plan. For thousands that it knew of,
it would read all sessions, if there are a million."""


def array(values: Iterable[Any]) -> str:
    """Return a column's PostgreSQL array literal: text, numbers, booleans, times, ids, None."""
    column = list(values)
    if _is_one_value(column):
        return _repeated(_literal(column[0]), len(column))
    kinds = set(map(type, column))
    if kinds == {str}:
        return _quoted_array(column)
    if kinds == {UUID}:
        return "{" + b"".join([value.int.to_bytes(16) for value in column]).hex(",", 16) + "}"
    if len(kinds) == 1 and (texts_of := _TEXTS.get(kinds.pop())):
        return "{" + ",".join(texts_of(column)) + "}"
    return "{" + ",".join(map(_literal, column)) + "}"


def json_array(values: Iterable[Any]) -> str:
    """Return the array literal of a column of JSON values, each as its text."""
    return _quoted_array([json_text(value) for value in values])


def json_text(value: Any) -> str:
    """Return a JSON value as its text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()
    except TypeError:  # an integer of more than 64 bits, or a class of its own: three times as slow
        return to_json(value).decode()


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the array literals of all columns of a table of rows."""
    return [array(column) for column in zip(*rows, strict=True)]


def copy_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as the text that `COPY ... FROM STDIN` reads; a dictionary is a JSON value.

    All values of a column are of one type: text, integers, times, ids, dictionaries.
    """
    texts = map(_copied, zip(*rows, strict=True))
    return "\n".join(map("\t".join, zip(*texts, strict=True)))


def unnested(types: Mapping[str, str], *, named: bool = False, numbered: str = "") -> str:
    """Return the SQL of a table `v` with these columns, each of them a parameter.

    Parameters go by place, or are `named` as their columns, `v.name`. JSON is text in it:
    `from_array` makes it JSON again. A further column can number the rows.
    """
    sent = _parameters(types, named=named)
    if numbered:
        return f"unnest({sent}) WITH ORDINALITY AS v({', '.join(types)}, {numbered})"
    return f"unnest({sent}) AS v({', '.join(types)})"


def _parameters(types: Mapping[str, str], *, named: bool = False) -> str:
    return ", ".join(
        f"{f'%(v.{name})s' if named else '%s'}::{_sent(kind)}[]" for name, kind in types.items()
    )


def from_array(name: str, kind: str) -> str:
    """Return the SQL of a column of `unnested`, as its type."""
    return f"v.{name}::jsonb" if kind == "jsonb" else f"v.{name}"


def inserted(table: str, values: Mapping[str, str]) -> str:
    """Return the SQL that inserts values by the names of their columns, up to its `FROM`."""
    return f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())}"


class SentRows(Generic[Given]):
    """Rows that a statement reads as a table: of each column its name, its type and its source.

    `str()` is the SQL of the table, `v`. A source makes a value of a row, or of one of each of
    several kinds of rows; JSON is sent as its text, None as NULL.
    """

    def __init__(
        self,
        *columns: tuple[str, str, Callable[Given, Any]],
        named: bool = False,
        numbered: str = "",
    ) -> None:
        self._types = types = {name: kind for name, kind, _ in columns}
        self._table = unnested(types, named=named, numbered=numbered)
        self._sources: list[Callable[..., Any]] = [source for _, _, source in columns]
        self._arrays = [_ARRAYS.get(kind, array) for _, kind, _ in columns]
        self._literals = [_LITERALS.get(kind, _literal) for _, kind, _ in columns]
        self.values = {name: from_array(name, kind) for name, kind in types.items()}
        """The SQL of the columns by name, each as its type."""

    def __str__(self) -> str:
        return self._table

    def inserted(self, table: str, more: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the SQL that inserts the rows into columns of their names, with `more` values."""
        return f"{inserted(table, {**self.values, **more})} FROM {self}"

    def kept(self, table: str, more: Mapping[str, str]) -> str:
        """Return the SQL that inserts all rows as one, of arrays, after `more` values."""
        names = ", ".join([*more, *self._types])
        values = ", ".join([*more.values(), _parameters(self._types)])
        return f"INSERT INTO {table} ({names}) VALUES ({values})"

    def arrays(self, *rows: Collection[Any]) -> list[str]:
        """Return the parameters by place. Of several kinds there are equally many rows."""
        if len(rows[0]) == 1:
            (row,) = zip(*rows, strict=True)
            pairs = zip(self._literals, self._sources, strict=True)
            return ["{" + literal(source(*row)) + "}" for literal, source in pairs]
        made = zip(self._arrays, self._sources, strict=True)
        return [pack(map(source, *rows)) for pack, source in made]

    def named(self, *rows: Collection[Any]) -> dict[str, str]:
        """Return the parameters by name, if these are `named`."""
        names = [f"v.{name}" for name in self._types]
        return dict(zip(names, self.arrays(*rows), strict=True))


def _literal(value: Any) -> str:
    """Return a value as an element of an array literal."""
    return _WRITERS.get(type(value), _element)(value)


def _element(value: Any) -> str:
    """Return what is written for a value of a class of its own, such as of an enumeration."""
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"no array literal for {type(value).__name__}")


def _text_array(values: Iterable[Any]) -> str:
    """Return what `array` does, sooner if all are texts."""
    column = list(values)
    if _is_one_value(column):
        return array(column)
    try:
        return _quoted_array(column)
    except TypeError:
        return array(column)


def _json_or_null_array(values: Iterable[Any]) -> str:
    column = list(values)
    if _is_one_value(column):
        return _repeated(_json_or_null(column[0]), len(column))
    return _text_array([None if value is None else json_text(value) for value in column])


def _json_or_null(value: Any) -> str:
    return "NULL" if value is None else _quoted(json_text(value))


def _is_one_value(column: Sequence[Any]) -> bool:
    """Return whether a column has one value, in one row or in many: most of a batch is alike."""
    return bool(column) and column[0] is column[-1] and column.count(column[0]) == len(column)


def _repeated(text: str, times: int) -> str:
    return "{" + ",".join([text] * times) + "}"


def _sent(kind: str) -> str:
    return "text" if kind == "jsonb" else kind


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted_array(texts: Sequence[str]) -> str:
    """Return the array literal of texts. All are escaped at once, with NUL between them."""
    joined = "\0".join(texts)
    if not texts or joined.count("\0") >= len(texts):  # PostgreSQL refuses a text with a NUL
        return "{" + ",".join(map(_quoted, texts)) + "}"
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace("\0", '","') + '"}'


def _ids(column: Sequence[UUID]) -> Sequence[str]:
    # Without hyphens, which would take Python longer than the rest.
    return [value.int.to_bytes(16).hex() for value in column]


def _times(column: Sequence[datetime]) -> Sequence[str]:
    # They need no quotes. Most often it is one moment.
    if column.count(column[0]) == len(column):
        return [column[0].isoformat()] * len(column)
    return [value.isoformat() for value in column]


def _numbers(column: Sequence[float | Decimal]) -> Sequence[str]:
    return list(map(str, column))


_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPED = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def _copied(column: Sequence[Any]) -> Sequence[str]:
    if _is_one_value(column):
        return list(_COPIED[type(column[0])](column[:1])) * len(column)
    return _COPIED[type(column[0])](column)


def _copied_texts(column: Sequence[str]) -> Sequence[str]:
    if _SPECIAL.search("".join(column)):
        return [text.translate(_ESCAPED) for text in column]
    return column


def _copied_json(column: Sequence[dict[str, Any]]) -> Sequence[str]:
    # JSON has no raw control characters.
    return [json_text(value).replace("\\", r"\\") for value in column]


_TEXTS: dict[type, Callable[[Any], Sequence[str]]] = {
    UUID: _ids,
    datetime: _times,
    int: _numbers,
    float: _numbers,
    Decimal: _numbers,
    bool: _numbers,
}
_COPIED: dict[type, Callable[[Any], Sequence[str]]] = {
    **_TEXTS,
    str: _copied_texts,
    dict: _copied_json,
}
_WRITERS: dict[type, Callable[[Any], str]] = {
    NoneType: lambda _: "NULL",
    str: _quoted,
    UUID: lambda value: value.int.to_bytes(16).hex(),
    datetime: lambda value: f'"{value.isoformat()}"',
    bool: str,
    int: str,
    float: str,
    Decimal: str,
}
_ARRAYS: dict[str, Callable[[Iterable[Any]], str]] = {
    "text": _text_array,
    "jsonb": _json_or_null_array,
}
_LITERALS = {"jsonb": _json_or_null}
