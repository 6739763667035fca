"""Deferred work of a transaction, done once just before its commit.

A counter that many transactions change is locked as late as possible, and only once in each. So the
calls of one transaction put their changes off, and all of them are made just before the commit.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
_PutOff = dict[Callable[[list[Any]], None], list[Any]]
_put_off: ContextVar[_PutOff | None] = ContextVar("reprise_put_off", default=None)


def put_off(do: Callable[[list[Item]], None], items: Iterable[Item]) -> None:
    """Call `do` with `items` at the end of the current step, together with those put off before.

    Outside of a step it is called now.
    """
    waiting = _put_off.get()
    if waiting is None:
        do(list(items))
    else:
        waiting.setdefault(do, []).extend(items)


@contextmanager
def closing() -> Iterator[None]:
    """Open a step: calls put off inside run at its end, or never if it raises."""
    token = _put_off.set({})
    try:
        yield
        for do, items in (_put_off.get() or {}).items():
            do(items)
    finally:
        _put_off.reset(token)
