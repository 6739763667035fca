"""Durations: in Go's style ("500ms", "1h30m") as users write them, and in words for people."""

import re
from decimal import Decimal

_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
PATTERN = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""The pattern of durations as text, for JSON Schema."""
_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
LONGEST = 64
_LARGEST = Decimal(2**63 - 1) * _SECONDS["ns"]


def parse_duration(text: str) -> float:
    """Read a duration of 0 or more. Return its seconds.

    Raises `ValueError` with a message for users for any other text, and beyond Go's limit of 2^63 -
    1 nanoseconds (some 292 years).
    """
    if text == "0":
        return 0.0
    seconds, position = Decimal(0), 0
    while 0 <= position < len(text) <= LONGEST and (part := _PART.match(text, position)):
        seconds += Decimal(part["number"]) * _SECONDS[part["unit"]]
        position = part.end()
    if not text or position < len(text):
        raise ValueError("must be a duration like 500ms, 30s or 1h30m")
    if seconds > _LARGEST:
        raise ValueError("must be at most 2^63 - 1 nanoseconds, some 292 years")
    return float(seconds)


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_CENTURY = 36_525 * 86_400


def in_words(seconds: float) -> str:
    """Return a duration for people: `0.25 s`, `42 s`, `1 h`, `1 d 2 h 5 s`.

    Accurate to the millisecond, and to the second from a minute on. Never raises.
    """
    if not seconds > 0:
        return "0 s"
    if seconds >= _CENTURY:
        return "over 100 years"
    if seconds < 0.001:
        return "less than 1 ms"
    rounded = round(seconds, 3)
    if rounded < 60:
        return f"{rounded:g} s"
    rest = round(seconds)
    parts = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)
