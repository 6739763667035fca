"""The writes of a step: what goes to the database in one round trip, and what goes last.

For a single session a statement costs PostgreSQL, Python and the network more than the row that it
writes. So a step may gather its writes, and send them at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.db import connection, transaction

Item = TypeVar("Item")


class _Write(NamedTuple):
    statement: str
    parameters: Sequence[Any]
    rows: int | None


class Writes:
    """The writes of one transaction or savepoint: `atomic_step` and `atomic_writes` make them.

    Whatever writes gets them as its first argument, so that callers see what goes together.
    """

    def __init__(self) -> None:
        self._gathered: list[_Write] | None = None
        self._last: dict[Callable[[list[Any]], None], list[Any]] = {}

    def add(self, statement: str, parameters: Sequence[Any], *, rows: int | None = None) -> None:
        """Execute an INSERT or an UPDATE, or gather it for the block of `together` around it.

        It has no `WITH` and no `RETURNING`, and its parameters go by place. An UPDATE says how many
        `rows` it changes: `AssertionError` if these are not all.
        """
        write = _Write(statement, parameters, rows)
        if self._gathered is None:
            _send([write])
        else:
            self._gathered.append(write)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Gather what the block adds, and send it as one statement at the block's end.

        No write in it sees the others, and none may change a row that another one changes or
        inserts. Nothing is sent if the block raises. A block within another one belongs to it.
        """
        if self._gathered is not None:
            yield
            return
        gathered: list[_Write] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
        if gathered:
            _send(gathered)

    def last(self, do: Callable[[list[Item]], None], items: Iterable[Item]) -> None:
        """Call `do` at the end of the step, once with all items that it was given.

        For counters that many transactions change: their locks are held for the commit only.
        """
        self._last.setdefault(do, []).extend(items)

    def finish(self) -> None:
        """Do what comes last. Only what makes `Writes` calls it, and not after an error."""
        for do, items in self._last.items():
            do(items)


@contextmanager
def atomic_writes() -> Iterator[Writes]:
    """Run the block in a transaction, or in a savepoint within one, with writes of its own.

    What comes last is done at the end of the block, and forgotten if the block raises.
    """
    with transaction.atomic():
        writes = Writes()
        yield writes
        writes.finish()


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
