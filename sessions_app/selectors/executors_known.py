"""What the scheduler knows of executors. It registers the functions that say it."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class ExecutorsKnown(NamedTuple):
    """Numbers of executors."""

    registered: int
    heard: int
    """Those that are not silent."""


class Silence(NamedTuple):
    """An executor that is late with its heartbeat, and when it was last heard."""

    executor: str
    heard_at: datetime


_count: list[Callable[[], ExecutorsKnown]] = []
_silence: list[Callable[[UUID], Silence | None]] = []


def count_with(count: Callable[[], ExecutorsKnown]) -> None:
    """Register the scheduler's function that counts executors."""
    _count[:] = [count]


def executors_known() -> ExecutorsKnown:
    """Return the numbers of executors; zeros without a scheduler."""
    return _count[0]() if _count else ExecutorsKnown(0, 0)


def silence_with(silence: Callable[[UUID], Silence | None]) -> None:
    """Register the scheduler's function that finds the silence of a session's executor."""
    _silence[:] = [silence]


def executor_silence(session_id: UUID) -> Silence | None:
    """Return the silence of the executor that holds the session; None if it is heard, or none."""
    return _silence[0](session_id) if _silence else None
