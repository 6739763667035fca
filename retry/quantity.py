"""Kubernetes resource quantities ("500m", "1.5Gi", "2e3") as exact decimal numbers."""

import math
import re
from decimal import Decimal

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
AMOUNT_PATTERN = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"
"""Of amounts as text, for documents; what is written so can still be too much."""
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("kMGTPE", 1)},
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}
_LONGEST = 40
_LARGEST = Decimal(2**63 - 1)


def parse(text: str | float) -> Decimal:
    """Read a quantity; a plain number is one, too.

    Raises ValueError, in words for the user, for anything else and for what Kubernetes cannot hold
    (beyond 2^63 - 1).
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError("a quantity must be a number or text like 500m or 1.5Gi")
    quantity = _read(text) if isinstance(text, str) else _exact(text)
    if abs(quantity) > _LARGEST:
        raise ValueError("a quantity must be less than 2^63")
    return quantity


def parse_resource(text: str | float) -> Decimal:
    """Read an amount of a resource: a quantity that is not negative. Raises ValueError."""
    quantity = parse(text)
    if quantity < 0:
        raise ValueError("an amount of a resource must not be negative")
    return quantity


def _read(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity like 500m, 2 or 1.5Gi")
    number = Decimal(match["number"])
    if match["exponent"]:
        return number.scaleb(int(match["exponent"]))
    return number * _SUFFIXES[match["suffix"] or ""]


def _exact(number: float) -> Decimal:
    if isinstance(number, int):
        return Decimal(number)
    if not math.isfinite(number):
        raise ValueError("a quantity must be a finite number")
    return Decimal(repr(number))
