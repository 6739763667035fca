"""Limits of retries: a number, or the word for no limit.

Policies have the word, on the wire and where they are stored. Decisions count with None instead.
"""

from typing import Annotated, Final, Literal

from pydantic import WithJsonSchema

UNLIMITED: Final = "unlimited"
Unlimited = Annotated[Literal["unlimited"], WithJsonSchema({"type": "string", "enum": [UNLIMITED]})]
Limit = int | Unlimited
_LARGEST = 2**31 - 1


def most_of(limit: Limit) -> int | None:
    """Return the most retries that a limit allows; None if it allows any number."""
    return limit if isinstance(limit, int) else None


def stored_number(limit: Limit) -> int:
    """Return the number that stands for a limit in a column of numbers."""
    return limit if isinstance(limit, int) else _LARGEST


def limit_of(most: int | None) -> Limit:
    """Return the limit that allows so many retries; None allows any number."""
    return UNLIMITED if most is None else most
