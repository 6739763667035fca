"""Priorities with their class: both are one number on the session's row, so that the lines of
waiting sessions keep their index and their order. Pure.

A class has a value, its rank: 0 is the default class, so that a plain priority stands for itself.
"""

from typing import NamedTuple

MOST_PRIORITY = 1_000_000
"""Priorities are between minus this and this."""
MOST_RANK = 1_000
"""Values of classes are between minus this and this; the stored number then has 32 bits."""
STEP = 2 * MOST_PRIORITY + 1
"""The distance between equal priorities of neighbouring ranks."""
DEFAULT_CLASS = "default"
"""The name of the shipped class, whose value is 0. All may name it."""


class Priority(NamedTuple):
    """The value of a session's class, and its priority within that class."""

    rank: int
    within: int


def folded(rank: int, within: int) -> int:
    """Return both as the number that is stored: it orders by the class first."""
    return rank * STEP + within


def unfolded(stored: int) -> Priority:
    """Return what `folded` has made into one number."""
    rank = (stored + MOST_PRIORITY) // STEP
    return Priority(rank, stored - rank * STEP)


def rank_sql(stored: str) -> str:
    """Return SQL for the value of the class in the number `stored`."""
    return f"round({stored} / {STEP}.0)::int"


def refolded_sql(stored: str, within: str) -> str:
    """Return SQL that gives the number `stored` another priority within the same class."""
    return f"{rank_sql(stored)} * {STEP} + {within}"
