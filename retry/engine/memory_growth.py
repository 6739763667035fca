"""Memory growth: more memory for the next attempt, within the limits of rule and quota."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from base.podspec.quantity import LARGEST, parse, shortest
from base.podspec.resources import GROUPS, grouped
from retry.policies.documents import MemoryGrowth

MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Growth:
    """The resources of the next attempt, and its memory before (`was`) and after (`now`).

    `held_by` is the limit that cut the growth: the rule's `max`, the project's `quota`, the
    largest `node`, the `largest` possible amount, or "".
    """

    resources: dict[str, Any]
    was: str
    now: str
    held_by: str


def grown(
    resources: Mapping[str, Any],
    growth: MemoryGrowth,
    quota: Decimal | None,
    node: Decimal | None = None,
) -> Growth | None:
    """Multiply the memory, rounded up to whole bytes; None if there is no memory to multiply.

    Where `requests` and `limits` are given apart, both grow. `quota` is the project's, `node` the
    most that a node could give, in bytes. Memory never shrinks: an amount above a limit stays.
    """
    in_groups = grouped(resources)
    parts = {name: resources.get(name) or {} for name in GROUPS} if in_groups else {"": resources}
    most = None if growth.max is None else parse(growth.max)
    # Kubernetes stores no larger amount; with this limit, a chain without others stays runnable.
    limits = {"max": most, "quota": quota, "node": node, "largest": Decimal(LARGEST)}
    raised = {
        name: found
        for name, part in parts.items()
        if (found := _raised(part.get(MEMORY), growth.factor, limits))
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


def _raised(was: Any, factor: float, limits: Mapping[str, Decimal | None]) -> _Raised | None:
    if was is None:
        return None
    try:
        amount = parse(was)
    except ValueError:
        return None
    now, held_by = math.ceil(amount * Decimal(repr(factor))), ""
    for name, limit in limits.items():
        if limit is not None and limit < now:
            now, held_by = math.floor(limit), name
    if now <= amount:
        return _Raised(was, was, held_by)
    # Written in the unit family (decimal or binary) that the user chose.
    return _Raised(was, shortest(now, decimal=str(was).endswith(tuple("kMGTPE"))), held_by)
