"""Tests of writes that go to the database together."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.db.writes import together, write
from sessions_app.models import Domain

pytestmark = pytest.mark.django_db

INSERT = "INSERT INTO sessions_app_domain (name, created_at) SELECT unnest(%s::text[]), now()"
RENAME = "UPDATE sessions_app_domain SET name = %s WHERE name = %s"


def names() -> set[str]:
    return set(Domain.objects.exclude(name="default").values_list("name", flat=True))


def test_alone_a_write_goes_at_once() -> None:
    write(INSERT, ["{a,b}"])
    assert names() == {"a", "b"}


def test_together_they_are_one_statement_with_all_parameters_in_their_places() -> None:
    write(INSERT, ["{old}"])
    with CaptureQueriesContext(connection) as seen, together():
        write(INSERT, ["{a}"])
        write(RENAME, ["new", "old"], rows=1)
        with together():
            write(INSERT, ["{b,c}"])
        assert len(seen) == 0
    assert len(seen) == 1
    assert names() == {"a", "b", "c", "new"}


def insert_and_rename(*renamed: str) -> None:
    with together():
        write(INSERT, ["{a}"])
        for each in renamed:
            write(RENAME, [each, "old"], rows=1)


def rename_alone() -> None:
    with together():
        write(RENAME, ["new", "old"], rows=1)


def insert_and_fail() -> None:
    with together():
        write(INSERT, ["{a}"])
        raise KeyError


def test_a_write_alone_in_its_block_is_counted_too() -> None:
    with pytest.raises(AssertionError, match=r"\[0\] instead of \[1\]"):
        rename_alone()


def test_rows_that_are_missing_are_noticed() -> None:
    with pytest.raises(AssertionError, match=r"\[0\] instead of \[1\]"):
        insert_and_rename("new")


def test_two_changes_of_one_row_are_noticed() -> None:
    write(INSERT, ["{old}"])
    with pytest.raises(AssertionError, match="instead of"):
        insert_and_rename("first", "second")


def test_a_block_that_raises_sends_nothing() -> None:
    with pytest.raises(KeyError):
        insert_and_fail()
    assert names() == set()
    write(INSERT, ["{b}"])
    assert names() == {"b"}
