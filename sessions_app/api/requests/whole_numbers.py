"""Whole numbers: `5.0` counts as an integer as in JSON Schema, and huge numbers are kept short."""

from typing import Any

from pydantic import BeforeValidator


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""A validator that goes after `StrictInt` and its bounds: `5.0` becomes 5; texts and booleans
stay."""

_LONGEST = 2**63


def in_short(value: Any) -> Any:
    """Return a stored JSON value with huge integers as floats.

    The database returns `1e308` with 309 digits. Here it becomes `1e308` again.
    """
    if isinstance(value, dict):
        return {key: in_short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [in_short(item) for item in value]
    if isinstance(value, int) and not -_LONGEST <= value < _LONGEST:
        return float(value)
    return value
