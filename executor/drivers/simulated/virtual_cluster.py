"""The nodes of a simulated cluster: their free resources, and whether they are up."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from threading import Lock
from typing import Any

from reprise_client.wire import Node

from podspec.quantity import parse_resource
from podspec.resources import requested

Amounts = Mapping[str, Decimal]
NOT_COUNTED = frozenset({"ephemeral-storage"})


def counted(resources: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the amount of each resource that a session takes, without zeros.

    Raises `ValueError`.
    """
    amounts = requested(resources) if resources else {}
    return {name: n for name, n in amounts.items() if n and name not in NOT_COUNTED}


class VirtualCluster:
    """A cluster of `count` equal nodes `sim-0`, `sim-1` ... with `allocatable` quantities each.

    `report` may be called from any thread, all other methods from one only.
    """

    def __init__(self, count: int, allocatable: Mapping[str, str]):
        self._text = dict(allocatable)
        self._whole = {name: parse_resource(text) for name, text in allocatable.items()}
        self._names = [f"sim-{number}" for number in range(count)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._free: list[dict[str, Decimal]] = [self._whole] * count
        self._up = [True] * count
        self._next = 0
        self._full = False
        self._lock = Lock()
        self._changed: set[int] = set()
        self._nodes = [self._node(number) for number in range(count)]

    def __len__(self) -> int:
        return len(self._names)

    def name(self, node: int) -> str:
        return self._names[node]

    def lacks(self, amounts: Amounts) -> str | None:
        """Return a resource of which even an empty node has too little; None if there is none."""
        for name, amount in amounts.items():
            if amount > self._whole.get(name, 0):
                return name
        return None

    def place(
        self, amounts: Amounts, pods: int, avoid: str = "", left_out: Iterable[str] = ()
    ) -> tuple[int, ...] | None:
        """Book one node for each pod, or none at all; None if there is no room at present.

        The search goes on where the last one ended, so that placing a session is quick while there
        is room. The node named `avoid` is left out, unless the other nodes that are up could not
        hold the pods even if they were empty; those in `left_out` are left out in any case.
        """
        avoided = {self._avoided(amounts, pods, avoid), *map(self._numbers.get, left_out)}
        found: list[int] = []
        number, looked = self._next, 0
        while len(found) < pods and looked < len(self._names):
            if self._up[number] and number not in avoided and self._book(number, amounts):
                found.append(number)
            number = (number + 1) % len(self._names)
            looked += 1
        self._next = number
        # With fewer nodes than pods, several pods share a node.
        while found and len(found) < pods and (again := self._again(found, amounts)) is not None:
            found.append(again)
        if len(found) == pods:
            return tuple(found)
        self.release(found, amounts)
        self._full = True
        return None

    def place_on(self, names: Iterable[str], amounts: Amounts) -> tuple[int, ...] | None:
        """Book the named nodes, one a pod, or none of them; None if one is down or has no room."""
        found: list[int] = []
        for name in names:
            number = self._numbers.get(name)
            if number is None or not self._up[number] or not self._book(number, amounts):
                self.release(found, amounts)
                return None
            found.append(number)
        return tuple(found)

    def refusal(self, names: Iterable[str], amounts: Amounts) -> tuple[str, str]:
        """Return the first of these nodes that is down or has no room for a pod, and why.

        If each has room for one pod, the last of them has none for several.
        """
        lacks = ""
        for name in names:
            number, last = self._numbers.get(name), name
            if number is None or not self._up[number]:
                return name, f"node {name} is not there"
            free = self._free[number]
            lacking = (each for each, amount in amounts.items() if free.get(each, 0) < amount)
            if lacks := next(lacking, ""):
                break
        return last, f"Insufficient {lacks or next(iter(amounts), 'pods')}"

    def _avoided(self, amounts: Amounts, pods: int, name: str) -> int | None:
        node = self._numbers.get(name)
        if node is None:
            return None
        others = sum(self._up) - self._up[node]
        each = min((self._whole[name] // amount for name, amount in amounts.items()), default=pods)
        return node if others * each >= pods else None

    def _again(self, found: Iterable[int], amounts: Amounts) -> int | None:
        return next((node for node in set(found) if self._book(node, amounts)), None)

    def _book(self, node: int, amounts: Amounts) -> bool:
        if not amounts:
            return True
        free = self._free[node]
        if any(free.get(name, 0) < amount for name, amount in amounts.items()):
            return False
        self._move(node, amounts, -1)
        return True

    def release(self, nodes: Iterable[int], amounts: Amounts) -> None:
        """Release what `place` booked."""
        for node in nodes if amounts else ():
            self._move(node, amounts, 1)
            if self._full:
                # No other node had room, so the search starts here.
                self._next, self._full = node, False

    def set_up(self, node: int, up: bool) -> None:
        """Mark a node as up or down."""
        with self._lock:
            self._up[node] = up

    def report(self) -> list[Node]:
        """Return the nodes that are up."""
        with self._lock:
            for number in self._changed:
                self._nodes[number] = self._node(number)
            self._changed.clear()
            return [node for node, up in zip(self._nodes, self._up, strict=True) if up]

    def _move(self, node: int, amounts: Amounts, sign: int) -> None:
        with self._lock:
            free = self._free[node]
            self._free[node] = {**free, **{n: free[n] + sign * a for n, a in amounts.items()}}
            self._changed.add(node)

    def _node(self, number: int) -> Node:
        free = self._free[number]
        amounts = self._text if free is self._whole else {n: _text(a) for n, a in free.items()}
        name = self._names[number]
        return Node(name=name, allocatable=self._text, free=amounts, labels={}, taints=[])


def _text(amount: Decimal) -> str:
    """Return the amount in base units; a fraction in thousandths."""
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"
