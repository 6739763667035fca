"""Tests of the writes of a step: what goes to the database together, and what goes last."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.db.writes import Writes, atomic_writes
from sessions_app.models import Domain

pytestmark = pytest.mark.django_db

INSERT = "INSERT INTO sessions_app_domain (name, created_at) SELECT unnest(%s::text[]), now()"
RENAME = "UPDATE sessions_app_domain SET name = %s WHERE name = %s"


@pytest.fixture
def writes() -> Iterator[Writes]:
    with atomic_writes() as made:
        yield made


def names() -> set[str]:
    return set(Domain.objects.exclude(name="default").values_list("name", flat=True))


def test_alone_a_write_goes_at_once(writes: Writes) -> None:
    writes.add(INSERT, ["{a,b}"])
    assert names() == {"a", "b"}


def test_together_they_are_one_statement_with_all_parameters_in_their_places(
    writes: Writes,
) -> None:
    writes.add(INSERT, ["{old}"])
    with CaptureQueriesContext(connection) as seen, writes.together():
        writes.add(INSERT, ["{a}"])
        writes.add(RENAME, ["new", "old"], rows=1)
        with writes.together():
            writes.add(INSERT, ["{b,c}"])
        assert len(seen) == 0
    assert len(seen) == 1
    assert names() == {"a", "b", "c", "new"}


def insert_and_rename(writes: Writes, *renamed: str) -> None:
    with writes.together():
        writes.add(INSERT, ["{a}"])
        for each in renamed:
            writes.add(RENAME, [each, "old"], rows=1)


def rename_alone(writes: Writes) -> None:
    with writes.together():
        writes.add(RENAME, ["new", "old"], rows=1)


def insert_and_fail(writes: Writes) -> None:
    with writes.together():
        writes.add(INSERT, ["{a}"])
        raise KeyError


def test_a_write_alone_in_its_block_is_counted_too(writes: Writes) -> None:
    with pytest.raises(AssertionError, match=r"\[0\] instead of \[1\]"):
        rename_alone(writes)


def test_rows_that_are_missing_are_noticed(writes: Writes) -> None:
    with pytest.raises(AssertionError, match=r"\[0\] instead of \[1\]"):
        insert_and_rename(writes, "new")


def test_two_changes_of_one_row_are_noticed(writes: Writes) -> None:
    writes.add(INSERT, ["{old}"])
    with pytest.raises(AssertionError, match="instead of"):
        insert_and_rename(writes, "first", "second")


def test_a_block_that_raises_sends_nothing(writes: Writes) -> None:
    with pytest.raises(KeyError):
        insert_and_fail(writes)
    assert names() == set()
    writes.add(INSERT, ["{b}"])
    assert names() == {"b"}


class Done:
    """The calls of what comes last, in order."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def take(self, items: list[int]) -> None:
        self.calls.append(items)


def test_what_comes_last_is_done_once_at_the_end() -> None:
    done = Done()
    take = done.take
    with atomic_writes() as writes:
        writes.last(take, [1])
        writes.last(take, iter([2, 3]))
        assert done.calls == []
    assert done.calls == [[1, 2, 3]]


def test_a_savepoint_does_its_own_at_its_end() -> None:
    done = Done()
    with atomic_writes() as outer:
        outer.last(done.take, [1])
        with atomic_writes() as inner:
            inner.last(done.take, [2])
        assert done.calls == [[2]]
    assert done.calls == [[2], [1]]


def fail_at_the_end(done: Done) -> None:
    with atomic_writes() as writes:
        writes.last(done.take, [1])
        raise ZeroDivisionError


def test_what_fails_forgets_what_came_last() -> None:
    done = Done()
    with suppress(ZeroDivisionError):
        fail_at_the_end(done)
    assert done.calls == []


def insert_and_refuse() -> None:
    with atomic_writes() as writes:
        writes.add(INSERT, ["{a}"])
        writes.last(_refuse, ["a"])


def _refuse(items: list[str]) -> None:
    raise ZeroDivisionError(items)


def test_an_error_of_what_comes_last_undoes_the_writes() -> None:
    with pytest.raises(ZeroDivisionError):
        insert_and_refuse()
    assert names() == set()
