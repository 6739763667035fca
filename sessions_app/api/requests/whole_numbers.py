"""Numbers as JSON has them: what JSON Schema takes for an integer, and large ones in short."""

from typing import Any

from pydantic import BeforeValidator


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""After `StrictInt` and its bounds: `5.0` is 5; texts and booleans are no numbers."""

_LONGEST = 2**63


def in_short(value: Any) -> Any:
    """A stored JSON value with the numbers that the database writes out as they were sent: `1e308`
    comes back as such, and not with 309 digits."""
    if isinstance(value, dict):
        return {key: in_short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [in_short(item) for item in value]
    if isinstance(value, int) and not -_LONGEST <= value < _LONGEST:
        return float(value)
    return value
