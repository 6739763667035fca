"""Whole columns as one parameter of a statement: `FROM unnest(%s::uuid[], %s::text[], ...)`.

psycopg escapes the elements of a list one character at a time in Python, which took four fifths of
the time of a bulk settle. An array literal made from whole strings costs a twentieth of that, and a
column of one type, as most are, is written as a whole. orjson writes the JSON, in a twelfth of
the time of the standard library.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from pydantic_core import to_json

FEW_IDS = "(SELECT %s::uuid[])::uuid[]"
"""SQL of a parameter of ids, for `= ANY(...)`, that the planner takes for a few, however many they
are. It looks each of them up in the index then, and keeps that plan. For thousands that it knew of,
it would read all sessions, if there are a million."""


def array(values: Iterable[Any]) -> str:
    """Return a column's PostgreSQL array literal: text, numbers, booleans, times, ids, None."""
    column = list(values)
    kinds = set(map(type, column))
    if kinds == {str}:
        return _quoted_array(column)
    if len(kinds) == 1 and (texts_of := _TEXTS.get(kinds.pop())):
        return "{" + ",".join(texts_of(column)) + "}"
    return "{" + ",".join([_WRITERS.get(type(value), _element)(value) for value in column]) + "}"


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
    texts = [_COPIED[type(column[0])](column) for column in zip(*rows, strict=True)]
    return "\n".join(map("\t".join, zip(*texts, strict=True)))


def arrays(sources: Mapping[str, Callable[..., Any]], *rows: Sequence[Any]) -> dict[str, str]:
    """Return the array literals of columns, by name.

    A source makes a value of a row, or of one of each of several kinds of rows.
    """
    return {name: array(map(source, *rows)) for name, source in sources.items()}


def unnested(types: Mapping[str, str], *, numbered: str = "", by_place: bool = False) -> str:
    """Return the SQL of a table `v` with these columns, each of them a parameter of its name.

    `by_place`, parameters have no names. JSON is text in it: `from_array` makes it JSON again. A
    further column can number the rows.
    """
    sent = ", ".join(
        [f"{'%s' if by_place else f'%({name})s'}::{_sent(kind)}[]" for name, kind in types.items()]
    )
    if numbered:
        return f"unnest({sent}) WITH ORDINALITY AS v({', '.join(types)}, {numbered})"
    return f"unnest({sent}) AS v({', '.join(types)})"


def from_array(name: str, kind: str) -> str:
    """Return the SQL of a column of `unnested`, as its type."""
    return f"v.{name}::jsonb" if kind == "jsonb" else f"v.{name}"


def inserted(table: str, values: Mapping[str, str]) -> str:
    """Return the SQL that inserts values by the names of their columns, up to its `FROM`."""
    return f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())}"


def _element(value: Any) -> str:
    """Return what is written for a value of a class of its own, such as of an enumeration."""
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"no array literal for {type(value).__name__}")


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


def _numbers(column: Sequence[int | float | Decimal]) -> Sequence[str]:
    return list(map(str, column))


_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPED = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


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
}
_COPIED: dict[type, Callable[[Any], Sequence[str]]] = {
    **_TEXTS,
    str: _copied_texts,
    dict: _copied_json,
}
_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "NULL",
    str: _quoted,
    UUID: lambda value: value.int.to_bytes(16).hex(),
    datetime: lambda value: f'"{value.isoformat()}"',
    bool: str,
    int: str,
    float: str,
    Decimal: str,
}
