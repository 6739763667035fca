"""Quotas: the limits of a project and its domain, and what is left of them. Pure.

A quota is named by the field that sets it: `sessions` (those on an executor), `pending_sessions`
(those that wait), and `resources.<name>` (what those on an executor ask for together).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from base.podspec.quantity import shortest
from base.podspec.resources import requested

SESSIONS = "sessions"
PENDING = "pending_sessions"
RESOURCES = "resources."
MEMORY = f"{RESOURCES}memory"
WAITING: Mapping[str, Decimal] = {PENDING: Decimal(1)}
"""Amounts that a session takes while it waits."""
Wanted = Mapping[str, Decimal]
_BYTES = ("memory", "storage", "hugepages")


def running(resources: Mapping[str, Any], pods: int) -> dict[str, Decimal]:
    """Return what a session of `pods` pods takes while it is on an executor."""
    asked = {f"{RESOURCES}{name}": n * pods for name, n in requested(resources).items()}
    return {SESSIONS: Decimal(1)} | asked


class Held(NamedTuple):
    """A quota that has no room: its scope, its name, its use and limit, and the amount wanted."""

    scope: str
    name: str
    used: Decimal
    limit: Decimal
    wanted: Decimal

    @property
    def ever(self) -> bool:
        """Return whether the amount would fit if nothing were in use."""
        return self.wanted <= self.limit

    def __str__(self) -> str:
        used, limit, wanted = (
            spelled(self.name, each) for each in (self.used, self.limit, self.wanted)
        )
        quota = f"the quota {self.name} of {self.scope}"
        if not self.ever:
            return f"{quota} is {limit} in all, and this needs {wanted}"
        return f"{quota} is {limit}, {used} are in use, and this needs {wanted}"


@dataclass(slots=True)
class Quota:
    """A limit of one scope and its use; a domain's counts for all its projects."""

    id: int
    scope: str
    name: str
    limit: Decimal
    used: Decimal

    def held(self, wanted: Wanted) -> Held | None:
        """Return this quota if it has no room for the amounts wanted, else None."""
        amount = wanted.get(self.name)
        if not amount or self.used + amount <= self.limit:
            return None
        return Held(self.scope, self.name, self.used, self.limit, amount)


class Quotas:
    """The quotas of some projects, with what a lease round takes of them.

    A project may be known without a quota: then one is about to be set, and is counted already.
    """

    def __init__(self, found: Iterable[tuple[int, Quota | None]]):
        self._of: dict[int, list[Quota]] = {}
        one: dict[int, Quota] = {}
        for project_id, quota in found:
            of = self._of.setdefault(project_id, [])
            if quota is not None:
                # Projects of a domain share its quotas.
                of.append(one.setdefault(quota.id, quota))

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def projects(self) -> set[int]:
        """Return the projects whose sessions are counted."""
        return set(self._of)

    def of(self, project_id: int) -> list[Quota]:
        """Return all quotas of a project, its own and its domain's."""
        return self._of.get(project_id, [])

    def held(self, project_id: int, wanted: Wanted) -> Held | None:
        """Return a quota without room; one that can never have it comes first."""
        found = [held for quota in self.of(project_id) if (held := quota.held(wanted))]
        return min(found, key=lambda held: held.ever, default=None)

    def never(self, project_id: int, wanted: Wanted) -> Held | None:
        """Return the quota that is too small even when nothing is in use, else None."""
        held = self.held(project_id, wanted)
        return None if held is None or held.ever else held

    def take(self, project_id: int, wanted: Wanted) -> None:
        """Count the amounts of something that was admitted."""
        for quota in self.of(project_id):
            quota.used += wanted.get(quota.name, Decimal(0))


def spelled(name: str, amount: Decimal) -> str:
    """Return an amount as people write it: `64Gi` of memory, `2500m` of cpu, `12` sessions."""
    if amount != amount.to_integral_value():
        milli = amount * 1000
        return f"{milli:f}".rstrip("0").rstrip(".") + "m"
    in_bytes = name.startswith(RESOURCES) and any(each in name for each in _BYTES)
    return shortest(int(amount)) if in_bytes else str(int(amount))
