"""Whole numbers in a body: what JSON Schema takes for an integer, and nothing looser."""

from pydantic import BeforeValidator


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""After `StrictInt` and its bounds: `5.0` is 5; texts and booleans are no numbers."""
