"""Interruption of the main thread, except in the middle of a fork.

Around a fork Python calls hooks that take and release locks. An exception that a signal handler
raises inside one of them is swallowed, and the lock stays taken forever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Interruption:
    held: bool = False
    waits: bool = False


_interruption = _Interruption()


def interrupt() -> None:
    """Raise `KeyboardInterrupt` now, or when the present hold ends; for signal handlers."""
    if _interruption.held:
        _interruption.waits = True
    else:
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interruptions back until the end of the block. For the main thread; not nested."""
    _interruption.held = True
    try:
        yield
    finally:
        _interruption.held = False
    if _interruption.waits:
        _interruption.waits = False
        raise KeyboardInterrupt
