"""Does a session fit on an executor's nodes? Pure; amounts are Kubernetes quantities."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from retry.quantity import parse
from retry.resources import Amounts, total

UNLIMITED_IF_UNKNOWN = frozenset({"ephemeral-storage"})
ANOTHER_NODE = "another node"


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a session does not fit: the resource, and whether it ever could.

    The resource is `ANOTHER_NODE` where only the node that it avoids could ever hold it.
    """

    resource: str
    wanted: Decimal
    available: Decimal
    ever: bool


class Room:
    """What is free on an executor: the sum of its nodes less what its leases hold."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]], held: Iterable[Amounts]):
        self._nodes = [
            (
                node.get("name", ""),
                {name: parse(value) for name, value in node.get("allocatable", {}).items()},
            )
            for node in nodes
        ]
        self._largest: Amounts = {}
        for _, whole in self._nodes:
            for name, value in whole.items():
                self._largest[name] = max(value, self._largest.get(name, value))
        self._free = total(whole for _, whole in self._nodes)
        self._holders: dict[frozenset[tuple[str, Decimal]], list[str]] = {}
        self.take(total(held))

    def misfit(self, wanted: Amounts, avoid: str = "") -> Misfit | None:
        """What does not suffice, None if the session fits: first, by name, what never could.

        `avoid` is the name of a node that does not count for this session. What is free is known
        of all nodes together only, so that it may be free on that node.
        """
        counted = sorted(wanted.keys() - UNLIMITED_IF_UNKNOWN)
        for name in counted:
            largest = self._largest.get(name, Decimal(0))
            if wanted[name] > largest:
                return Misfit(name, wanted[name], largest, ever=False)
        if avoid and self._only(avoid, frozenset((name, wanted[name]) for name in counted)):
            return Misfit(ANOTHER_NODE, Decimal(1), Decimal(0), ever=False)
        for name in counted:
            if wanted[name] > self._free.get(name, Decimal(0)):
                return Misfit(name, wanted[name], self._free.get(name, Decimal(0)), ever=True)
        return None

    def take(self, wanted: Amounts) -> None:
        """Book what was granted."""
        for name, value in wanted.items():
            self._free[name] = self._free.get(name, Decimal(0)) - value

    def _only(self, avoid: str, wanted: frozenset[tuple[str, Decimal]]) -> bool:
        """It is a node here, and no other one has so much even when it is empty."""
        if wanted not in self._holders:
            self._holders[wanted] = self._two_holders(wanted)
        if any(node != avoid for node in self._holders[wanted]):
            return False
        return any(node == avoid for node, _ in self._nodes)

    def _two_holders(self, wanted: frozenset[tuple[str, Decimal]]) -> list[str]:
        """Two of the nodes that could hold it: enough, whichever node is avoided."""
        names = (
            node
            for node, whole in self._nodes
            if all(whole.get(name, 0) >= value for name, value in wanted)
        )
        found = next(names, None)
        another = next((node for node in names if node != found), None)
        return [node for node in (found, another) if node is not None]
