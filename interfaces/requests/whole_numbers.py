"""Whole numbers of callers: `5.0` counts as an integer, as in JSON Schema."""

from pydantic import BeforeValidator


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""A validator that goes after `StrictInt` and its bounds: `5.0` becomes 5; texts and booleans
stay."""
