"""Columns of values arrive in PostgreSQL as they are, whatever stands in them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from django.db import DataError, connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.db.bulk import SentRows, array, copy_text, json_array

pytestmark = pytest.mark.django_db

# PostgreSQL stores neither a NUL nor half of a pair of surrogates.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
AWKWARD = st.sampled_from(["", "NULL", "null", '"', "\\", "\\N", "{}", ",", "\t", "\n", "\r", " "])
TEXTS = st.lists(TEXT | AWKWARD, max_size=6)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))])
TIMES = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)  # noqa: DTZ001
COLUMNS: dict[str, st.SearchStrategy[list[Any]]] = {
    "text": TEXTS,
    "uuid": st.lists(st.uuids(), max_size=4),
    "bigint": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    "float8": st.lists(st.floats(allow_nan=False), max_size=4),
    "numeric": st.lists(st.decimals(allow_nan=False, allow_infinity=False), max_size=4),
    "boolean": st.lists(st.booleans(), max_size=4),
    "timestamptz": st.lists(TIMES, max_size=4),
}
# Integers of more than 64 bits, too, which orjson does not write.
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = TEXT | AWKWARD | NUMBERS | st.booleans() | st.none()
JSON = st.lists(st.dictionaries(TEXT | AWKWARD, VALUES), max_size=4)


def _read(literal: str, kind: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT v FROM unnest(%s::{kind}[]) v", [literal])
        return [value for (value,) in cursor.fetchall()]


@pytest.mark.parametrize("kind", COLUMNS)
@given(data=st.data())
@settings(max_examples=25)
def test_an_array_has_its_values(kind: str, data: st.DataObject) -> None:
    values = data.draw(COLUMNS[kind])
    assert _read(array(values), kind) == values
    with_none = [None, *values]
    assert _read(array(with_none), kind) == with_none


@given(values=JSON)
@settings(max_examples=25)
def test_an_array_of_json_has_its_values(values: list[dict[str, Any]]) -> None:
    assert [json.loads(text) for text in _read(json_array(values), "text")] == values


def test_a_text_with_a_nul_is_refused_and_moves_no_other() -> None:
    for values in (["a\0b"], ["a\0", "b"], ["\0"]):
        with pytest.raises((DataError, ValueError)), transaction.atomic():
            _read(array(values), "text")


OBJECT = JSON.map(lambda values: {"values": values})


@given(
    rows=st.lists(
        st.tuples(st.uuids(), TEXT | AWKWARD, st.integers(-9, 9), TIMES, OBJECT), max_size=4
    )
)
@settings(max_examples=25)
def test_copied_rows_have_their_values(
    rows: list[tuple[UUID, str, int, datetime, dict[str, Any]]],
) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE copied (a uuid, b text, c int, d timestamptz, e text)")
        with cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write(copy_text(rows))
        cursor.execute("TABLE copied")
        found = cursor.fetchall()
        cursor.execute("DROP TABLE copied")
    assert [(*row[:-1], json.loads(row[-1])) for row in found] == rows


Sent = tuple[UUID, str | None, int, bool, datetime, dict[str, Any] | None]
SENT = SentRows[[Sent]](
    ("id", "uuid", lambda row: row[0]),
    ("name", "text", lambda row: row[1]),
    ("number", "int", lambda row: row[2]),
    ("flag", "boolean", lambda row: row[3]),
    ("time", "timestamptz", lambda row: row[4]),
    ("data", "jsonb", lambda row: row[5]),
    numbered="place",
)
ROW = st.tuples(
    *(st.uuids(), TEXT | AWKWARD | st.none(), st.integers(-9, 9), st.booleans(), TIMES),
    st.dictionaries(TEXT | AWKWARD, TEXT | AWKWARD | st.integers() | st.none()) | st.none(),
)


@given(rows=st.lists(ROW, min_size=1, max_size=4), times=st.integers(1, 2))
@settings(max_examples=50)
def test_sent_rows_have_their_values(rows: list[Sent], times: int) -> None:
    sent = rows * times + rows[:1]
    with connection.cursor() as cursor:
        values = ", ".join(SENT.values.values())
        cursor.execute(f"SELECT {values} FROM {SENT} ORDER BY place", SENT.arrays(sent))
        found = cursor.fetchall()
    assert [(*row[:-1], row[-1] and json.loads(row[-1])) for row in found] == sent


def test_sent_rows_of_two_kinds_are_inserted() -> None:
    sent = SentRows[[str, int]](
        ("name", "text", lambda name, _: name), ("number", "int", lambda _, number: number)
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE kinds (name text, number int, more text)")
        statement = sent.inserted("kinds", {"more": "%s"})
        cursor.execute(statement, ["x", *sent.arrays(["a", "b"], [1, 2])])
        cursor.execute("TABLE kinds")
        found = cursor.fetchall()
        cursor.execute("DROP TABLE kinds")
    assert found == [("a", 1, "x"), ("b", 2, "x")]


def test_sent_rows_may_be_named() -> None:
    sent = SentRows[[int]](("number", "int", lambda number: number), named=True)
    with connection.cursor() as cursor:
        statement = f"SELECT number + %(more)s FROM {sent}"
        cursor.execute(statement, {"more": 1, **sent.named([1, 2])})
        assert cursor.fetchall() == [(2,), (3,)]
