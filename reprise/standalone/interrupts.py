"""When an interruption of the main thread may come: not in the middle of a fork.

Around a fork Python calls hooks that take and give back locks. An exception that a signal's handler
raises in one of them is swallowed, and the lock stays taken for ever.
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
    """Raise `KeyboardInterrupt` now, or where the present hold ends; for signal handlers."""
    if _interruption.held:
        _interruption.waits = True
    else:
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interruptions back until the end of the block. Of the main thread, not nested."""
    _interruption.held = True
    try:
        yield
    finally:
        _interruption.held = False
    if _interruption.waits:
        _interruption.waits = False
        raise KeyboardInterrupt
