"""Pauses between tries."""

import random


class Backoff:
    """Random pauses in seconds, from `shortest` up to a ceiling.

    The ceiling doubles with each failure, from `first` to `longest`. The pauses are random so that
    callers who failed together do not come back together.
    """

    def __init__(self, *, first: float, longest: float, shortest: float = 0.0):
        self._first = first
        self._longest = longest
        self._shortest = shortest
        self.failures = 0

    def next(self) -> float:
        ceiling = min(self._first * 2.0 ** min(self.failures, 10), self._longest)
        self.failures += 1
        return random.uniform(self._shortest, ceiling)  # noqa: S311  # spreads load, guards nothing

    def reset(self) -> None:
        self.failures = 0
