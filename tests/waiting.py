"""Waiting for what no event tells."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 180.0
"""What a wait allows for: it tells what hangs from what is slow on a busy machine."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.2

Value = TypeVar("Value")


def until(
    condition: Callable[[], Value | None], what: str = "", seconds: float = PATIENCE_SECONDS
) -> Value:
    """Return the first true value of `condition`, which is asked again and again for `seconds`.

    The pauses grow with the wait: who asks takes the processors that the others need.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:g} s: {what or condition}"
        time.sleep(min(max(SHORTEST_PAUSE, waited / 10), LONGEST_PAUSE))
    return value


def early_in_a_minute() -> None:
    """Wait for the next minute of the clock if this one soon ends: it may have a limit."""
    left = 60 - time.time() % 60
    if left < 20:
        time.sleep(left)
