"""A record as JSON values, by the shape that the documents have of it."""

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel


def rendered(
    shape: type[BaseModel], record: object, *, leave_out: Collection[str] = (), **values: Any
) -> dict[str, Any]:
    """Return the fields of `shape`: those in `values`, and all others as the record has them.

    It takes almost twice as long as a dictionary that names the fields. Lists of sessions, attempts
    and events are long, so they have such dictionaries.
    """
    names = [field.alias or name for name, field in shape.model_fields.items()]
    return {
        name: values[name] if name in values else getattr(record, name)
        for name in names
        if name not in leave_out
    }
