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
# A context variable: callers far down need no argument for it, and each thread has its own.
_put_off: ContextVar[_PutOff | None] = ContextVar("reprise_put_off", default=None)


def put_off(do: Callable[[list[Item]], None], items: Iterable[Item]) -> None:
    """Let `do` have `items` when the innermost `closing` block around the caller ends.

    All items for the same `do` come in one call. Outside of any block it has them now.
    """
    waiting = _put_off.get()
    if waiting is None:
        do(list(items))
    else:
        waiting.setdefault(do, []).extend(items)


@contextmanager
def closing() -> Iterator[None]:
    """Do what the block puts off at its end, and forget it if the block raises.

    It goes inside the transaction, as in `steps.atomic_step`.
    """
    token = _put_off.set({})
    try:
        yield
        for do, items in (_put_off.get() or {}).items():
            do(items)
    finally:
        _put_off.reset(token)
