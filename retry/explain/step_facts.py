"""Readers of trace steps, whatever facts an older or a newer version left out."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from retry.units.durations import in_words

Facts = Mapping[str, Any]
Sentence = Callable[[Facts], str]
NO_LIMIT = "with no limit of their own"
"""What is said of a budget that only the limit of all chains binds."""


def passed(step: Facts) -> bool:
    return step.get("result") == "pass"


def seconds(step: Facts, name: str) -> float:
    """Return a number of the step; 0 if there is none."""
    value = step.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value is not None else 0


def count(step: Facts, name: str) -> int:
    """Return a whole number of the step; 0 if there is none."""
    value = step.get(name)
    return value if isinstance(value, int) else 0


def lasting(step: Facts, name: str) -> str:
    """Return a number of seconds in words."""
    return in_words(seconds(step, name))


def within(step: Facts) -> str:
    """Return the window in which a budget counts, and since when, as the end of a clause; "" if it
    counts for the whole chain."""
    window = f" in the last {lasting(step, 'window')}" if step.get("window") else ""
    return f"{window} since the last progress" if step.get("since_progress") else window


def number(value: object) -> str:
    """Return a plain number as text; any other value as it is."""
    if not isinstance(value, float):
        return str(value)
    return str(round(value, 3) or value).removesuffix(".0")


def time_of(value: object) -> datetime | None:
    """Return a time, or text that is one, in UTC; None for anything else."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        return at.astimezone(UTC) if isinstance(at, datetime) else None
    except (ValueError, OverflowError):
        return None


def moment(value: object) -> str:
    """Return a time to the second, in UTC; text that is not a time as it is."""
    at = time_of(value)
    return str(value) if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def texts(step: Facts, name: str) -> list[str]:
    value = step.get(name)
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def listed(words: Sequence[str]) -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
