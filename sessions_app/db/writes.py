"""Writes that go to the database together, as one statement.

For a single session a statement costs PostgreSQL, Python and the network more than the row that it
writes. So a step may gather its writes, and send them at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from django.db import connection


class _Write(NamedTuple):
    statement: str
    parameters: Sequence[Any]
    rows: int | None


@dataclass(slots=True)
class Answer:
    """The value that was asked for by `ask`; None until it is there."""

    value: Any = None


class _Ask(NamedTuple):
    value: str
    parameters: Sequence[Any]
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Gathered:
    writes: list[_Write] = field(default_factory=list)
    asks: list[_Ask] = field(default_factory=list)


_gathered: ContextVar[_Gathered | None] = ContextVar("reprise_gathered", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Gather what the block writes by `write`, and send it as one statement at the block's end.

    No write in it sees the others, and none may change a row that another one changes or inserts.
    Nothing is sent if the block raises. A block within another one belongs to it.
    """
    if _gathered.get() is not None:
        yield
        return
    gathered = _Gathered()
    token = _gathered.set(gathered)
    try:
        yield
    finally:
        _gathered.reset(token)
    if gathered.writes or gathered.asks:
        _send(gathered)


def write(statement: str, parameters: Sequence[Any], *, rows: int | None = None) -> None:
    """Execute an INSERT or an UPDATE, or leave it to the block of `together` around the caller.

    It has no `WITH` and no `RETURNING`, and its parameters go by place. An UPDATE says how many
    `rows` it changes: `AssertionError` if these are not all.
    """
    one = _Write(statement, parameters, rows)
    gathered = _gathered.get()
    if gathered is None:
        _send(_Gathered([one]))
    else:
        gathered.writes.append(one)


def ask(value: str, parameters: Sequence[Any]) -> Answer:
    """Return the answer to the SQL of one value, which the block of `together` around the caller
    has at its end. Without a block it has it at once.

    It does not see what the block writes.
    """
    one = _Ask(value, parameters, Answer())
    gathered = _gathered.get()
    if gathered is None:
        _send(_Gathered(asks=[one]))
    else:
        gathered.asks.append(one)
    return one.answer


def _send(gathered: _Gathered) -> None:
    writes, asks = gathered.writes, gathered.asks
    expected = [each.rows for each in writes if each.rows is not None]
    with connection.cursor() as cursor:
        if len(writes) == 1 and not asks:
            cursor.execute(writes[0].statement, writes[0].parameters)
            written = [cursor.rowcount] if expected else []
        else:
            statement = _joined(
                tuple((each.statement, each.rows is not None) for each in writes),
                tuple(each.value for each in asks),
            )
            lists = [*(each.parameters for each in writes), *(each.parameters for each in asks)]
            cursor.execute(statement, list(chain.from_iterable(lists)))
            found = cursor.fetchone()
            written = list(found[: len(expected)])
            for each, value in zip(asks, found[len(found) - len(asks) :], strict=True):
                each.answer.value = value
    if written != expected:
        raise AssertionError(f"rows written: {written} instead of {expected}")


@cache
def _joined(statements: tuple[tuple[str, bool], ...], values: tuple[str, ...]) -> str:
    """Return the statements as one that selects the numbers of rows of those that are counted, and
    the values."""
    members = ", ".join(
        f"w{place} AS ({statement}{' RETURNING 1' if counted else ''})"
        for place, (statement, counted) in enumerate(statements)
    )
    counts = [
        f"(SELECT count(*) FROM w{place})"
        for place, (_, counted) in enumerate(statements)
        if counted
    ]
    selected = ", ".join((*counts, *values)) or "0"
    return f"WITH {members} SELECT {selected}" if members else f"SELECT {selected}"
