"""Kubernetes' way of writing amounts: `500m`, `2`, `512Mi`, `1e9`."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SHAPE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([0-9]{1,2}))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: dict[str, int] = {
    unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}


def parse(text: str) -> Decimal:
    """The amount in base units (cores, bytes). Raises `ValueError`."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 512Mi")
    number, unit, exponent = Decimal(shape[1]), shape[2] or "", int(shape[3] or 0)
    if unit in _BINARY:
        return number * _BINARY[unit]
    return number.scaleb(_DECIMAL.get(unit, exponent))


def limit_of(resources: Mapping[str, Any], name: str) -> Decimal | None:
    """What a session may use at most of a resource. Raises `ValueError`."""
    return _first(name, resources.get("limits"), resources, resources.get("requests"))


def request_of(resources: Mapping[str, Any], name: str) -> Decimal:
    """What a session asks to have of a resource; 0 if it says nothing. Raises `ValueError`."""
    found = _first(name, resources.get("requests"), resources, resources.get("limits"))
    return found or Decimal(0)


def _first(name: str, *places: Any) -> Decimal | None:
    for place in places:
        if isinstance(place, Mapping) and place.get(name) is not None:
            return parse(str(place[name]))
    return None
