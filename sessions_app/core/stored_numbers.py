"""Numbers as the database gives them back. Pure."""

from typing import Any

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
