"""More memory for the next attempt, within what the rule and the quota allow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from retry.quantity import parse
from retry.resources import GROUPS
from retry.rules import MemoryGrowth

MEMORY = "memory"
_BINARY = tuple((f"{prefix}i", 1024**power) for power, prefix in enumerate("KMGTPE", 1))
_DECIMAL = tuple((prefix, 1000**power) for power, prefix in enumerate("kMGTPE", 1))
# Kubernetes holds no more, so that a chain without any other limit stays one that can run.
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Growth:
    """The resources of the next attempt, and of the memory that it may use: before and after.

    `held_by` is what held it back: the rule's `max`, the project's `quota`, the `largest` amount
    that there is, or nothing.
    """

    resources: dict[str, Any]
    was: str
    now: str
    held_by: str


def grown(
    resources: Mapping[str, Any], growth: MemoryGrowth, ceiling: Decimal | None
) -> Growth | None:
    """Multiply the memory, rounded up to whole bytes; None if there is none to multiply.

    Where `requests` and `limits` are given apart, both grow. `ceiling` is the project's quota in
    bytes. Memory never shrinks: what is above a limit already stays as it is.
    """
    grouped = any(group in resources for group in GROUPS)
    parts = {name: resources.get(name) or {} for name in GROUPS} if grouped else {"": resources}
    raised = {
        name: found
        for name, part in parts.items()
        if (found := _raised(part.get(MEMORY), growth, ceiling))
    }
    if not raised:
        return None
    changed = {name: {**parts[name], MEMORY: found.now} for name, found in raised.items()}
    used = raised.get("limits") or next(iter(raised.values()))
    after = {**resources, **(changed if grouped else changed[""])}
    return Growth(after, str(used.was), str(used.now), used.held_by)


@dataclass(frozen=True, slots=True)
class _Raised:
    was: Any
    now: Any
    held_by: str


def _raised(was: Any, growth: MemoryGrowth, ceiling: Decimal | None) -> _Raised | None:
    if was is None:
        return None
    try:
        amount = parse(was)
    except ValueError:
        return None
    limits = {"max": None if growth.max is None else parse(growth.max), "quota": ceiling}
    now, held_by = math.ceil(amount * Decimal(repr(growth.factor))), ""
    for name, limit in {**limits, "largest": _LARGEST}.items():
        if limit is not None and limit < now:
            now, held_by = math.floor(limit), name
    if now <= amount:
        return _Raised(was, was, held_by)
    return _Raised(was, _text(now, decimal=_is_decimal(str(was))), held_by)


def _is_decimal(text: str) -> bool:
    return text[-1:] in tuple("kMGTPE")


def _text(amount: int, *, decimal: bool) -> str:
    """The shortest exact spelling, in the family of units that the user chose."""
    for suffix, unit in reversed(_DECIMAL if decimal else _BINARY):
        if amount % unit == 0 and amount:
            return f"{amount // unit}{suffix}"
    return str(amount)
