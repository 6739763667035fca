"""Writes that go to the database together, as one statement.

For a single session a statement costs PostgreSQL, Python and the network more than the row that it
writes. So a step may gather its writes, and send them at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from django.db import connection


class _Write(NamedTuple):
    statement: str
    parameters: Sequence[Any]
    rows: int | None


_gathered: ContextVar[list[_Write] | None] = ContextVar("reprise_gathered", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Gather what the block writes by `write`, and send it as one statement at the block's end.

    No write in it sees the others, and none may change a row that another one changes or inserts.
    Nothing is sent if the block raises. A block within another one belongs to it.
    """
    if _gathered.get() is not None:
        yield
        return
    token = _gathered.set([])
    try:
        yield
        gathered = _gathered.get() or []
    finally:
        _gathered.reset(token)
    if gathered:
        _send(gathered)


def write(statement: str, parameters: Sequence[Any], *, rows: int | None = None) -> None:
    """Execute an INSERT or an UPDATE, or leave it to the block of `together` around the caller.

    It has no `WITH` and no `RETURNING`, and its parameters go by place. An UPDATE says how many
    `rows` it changes: `AssertionError` if these are not all.
    """
    gathered = _gathered.get()
    if gathered is None:
        _send([_Write(statement, parameters, rows)])
    else:
        gathered.append(_Write(statement, parameters, rows))


def _send(writes: Sequence[_Write]) -> None:
    expected = [each.rows for each in writes if each.rows is not None]
    with connection.cursor() as cursor:
        if len(writes) == 1:
            cursor.execute(writes[0].statement, writes[0].parameters)
            written = [cursor.rowcount] if expected else []
        else:
            statement = _joined(tuple((each.statement, each.rows is not None) for each in writes))
            cursor.execute(statement, [value for each in writes for value in each.parameters])
            written = list(cursor.fetchone())[: len(expected)]
    if written != expected:
        raise AssertionError(f"rows written: {written} instead of {expected}")


@cache
def _joined(statements: tuple[tuple[str, bool], ...]) -> str:
    """Return the statements as one that selects the numbers of rows of those that are counted."""
    members = ", ".join(
        f"w{place} AS ({statement}{' RETURNING 1' if counted else ''})"
        for place, (statement, counted) in enumerate(statements)
    )
    counts = [
        f"(SELECT count(*) FROM w{place})"
        for place, (_, counted) in enumerate(statements)
        if counted
    ]
    return f"WITH {members} SELECT {', '.join(counts) or 0}"
