"""Reads Kubernetes resource quantities ("500m", "1.5Gi", "2e3") as decimals, exactly as Kubernetes
does.

The grammar is that of Kubernetes' `resource.Quantity`: a signed number, followed by a binary
suffix, a decimal one or an exponent.
"""

import math
import re
from collections.abc import Sequence
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_MISSPELT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>[kmgtpeKMGTPE])i?[bB]?")
AMOUNT_PATTERN = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"
"""The pattern of an amount as text, for documents. A text that matches can still be too large."""
LARGEST = 2**63 - 1
"""The largest quantity. Kubernetes cannot hold more in binary units, nor calculate with more."""
_BINARY = {f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", 1)}
_DECIMAL = {prefix: 1000**power for power, prefix in enumerate("kMGTPE", 1)}
_NANO = Decimal("1e-9")
_MILLI = Decimal("1e-3")
_SUFFIXES = {
    "n": _NANO,
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(unit) for suffix, unit in (_DECIMAL | _BINARY).items()},
}
_LONGEST = 40
# It holds the digits of the longest text times those of the largest suffix, so products are exact.
_EXACT = Context(prec=2 * _LONGEST, rounding=ROUND_UP)


def parse(text: str | float) -> Decimal:
    """Return the value of a quantity or plain number. Parts of a nano are rounded away from zero.

    Raises ValueError, in words for the user, for anything else and for values that are too large.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError("a quantity must be a number or text like 500m or 1.5Gi")
    quantity = _read(text) if isinstance(text, str) else _exact(text)
    if quantity.copy_abs() > LARGEST:
        raise ValueError("a quantity must be less than 2^63")
    # Kubernetes holds nothing finer, and rounds up, so that a small request is never nothing.
    rounded = _EXACT.quantize(quantity, _NANO)
    return quantity if rounded == quantity else rounded


def parse_resource(text: str | float) -> Decimal:
    """Return the amount of a resource: a quantity that is not negative. Raises ValueError."""
    quantity = parse(text)
    if quantity < 0:
        raise ValueError("an amount of a resource must not be negative")
    return quantity


def shortest(amount: int, *, decimal: bool = False) -> str:
    """Return the shortest exact spelling of a whole amount, in binary units or in decimal ones."""
    units = _DECIMAL if decimal else _BINARY
    for suffix, unit in reversed(units.items()):
        if amount and amount % unit == 0:
            return f"{amount // unit}{suffix}"
    return str(amount)


def in_one_unit(amounts: Sequence[Decimal], like: object, *, of_bytes: bool) -> list[str]:
    """Return amounts of a resource in one unit: that of the quantity `like`, if it can show them.

    A smaller unit of the same kind is taken if an amount would be less than 1 in it, and bytes
    without a unit get one. What the unit cannot spell in three decimals is rounded down.
    """
    match = _QUANTITY.fullmatch(like) if isinstance(like, str) and len(like) <= _LONGEST else None
    suffix = (match and match["suffix"]) or ""
    if suffix in _DECIMAL or suffix in _BINARY or of_bytes:
        least = min((amount for amount in amounts if amount > 0), default=Decimal(1))
        units = _DECIMAL if suffix in _DECIMAL else _BINARY
        below = [unit for unit in units if units[unit] <= least]
        if suffix not in units or units[suffix] > least:
            suffix = below[-1] if below else ""
    return [_spelled(amount, suffix) for amount in amounts]


def probably_meant(text: str | float) -> str:
    """Return the amount of bytes that somebody meant who wrote so few of them; "" if unknown.

    `500m` is half a byte and stands for `500Mi`, `0.5` for `0.5Gi`, `64Ki` for `64Mi`.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match["exponent"]:
        return ""
    number, suffix = match["number"].removeprefix("+"), match["suffix"] or ""
    if suffix in {"k", "Ki"}:
        return number + {"k": "M", "Ki": "Mi"}[suffix]
    if suffix or Decimal(number) >= 1:
        return f"{number}Mi"
    return f"{number}Gi"


def _spelled(amount: Decimal, suffix: str) -> str:
    number = (amount / _SUFFIXES[suffix]).quantize(_MILLI, ROUND_DOWN, _EXACT).normalize(_EXACT)
    return f"{number:f}{suffix}"


def _read(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(
            f"{text[:_LONGEST]!r} is not a quantity like 500m, 2 or 1.5Gi{_hint(text)}"
        )
    number = Decimal(match["number"])
    if match["exponent"]:
        return _EXACT.scaleb(number, int(match["exponent"]))
    return _EXACT.multiply(number, _SUFFIXES[match["suffix"] or ""])


def _hint(text: str) -> str:
    """Return what a misspelt unit of bytes means: `1g`, `1 GB` and `1GiB` are `1Gi`."""
    match = _MISSPELT.fullmatch(text) if len(text) <= _LONGEST else None
    return f"; did you mean {match['number']}{match['unit'].upper()}i?" if match else ""


def _exact(number: float) -> Decimal:
    if isinstance(number, int):
        return Decimal(number)
    if not math.isfinite(number):
        raise ValueError("a quantity must be a finite number")
    return Decimal(repr(number))
