"""More memory for the next attempt, within what the rule and the quota allow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from podspec.quantity import LARGEST, parse, shortest
from podspec.resources import GROUPS, grouped
from retry.policies.documents import MemoryGrowth

MEMORY = "memory"


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
    in_groups = grouped(resources)
    parts = {name: resources.get(name) or {} for name in GROUPS} if in_groups else {"": resources}
    raised = {
        name: found
        for name, part in parts.items()
        if (found := _raised(part.get(MEMORY), growth, ceiling))
    }
    if not raised:
        return None
    changed = {name: {**parts[name], MEMORY: found.now} for name, found in raised.items()}
    used = raised.get("limits") or next(iter(raised.values()))
    after = {**resources, **(changed if in_groups else changed[""])}
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
    # Kubernetes holds no more: so a chain without any other limit stays one that can run.
    for name, limit in {**limits, "largest": LARGEST}.items():
        if limit is not None and limit < now:
            now, held_by = math.floor(limit), name
    if now <= amount:
        return _Raised(was, was, held_by)
    # In the family of units that the user chose.
    return _Raised(was, shortest(now, decimal=str(was).endswith(tuple("kMGTPE"))), held_by)
