"""The nodes of a simulated cluster: their free resources, and whether they are up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import Any

from reprise_client.wire import Node

from base.podspec.node_templates import NodeTemplate
from base.podspec.quantity import parse_resource
from base.podspec.resources import requested

Amounts = Mapping[str, Decimal]
NOT_COUNTED = frozenset({"ephemeral-storage"})


def counted(resources: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the amount of each resource that a session takes, without zeros.

    Raises `ValueError`.
    """
    amounts = requested(resources) if resources else {}
    return {name: n for name, n in amounts.items() if n and name not in NOT_COUNTED}


class _Kind:
    """A kind of nodes: their amounts when they are empty, their labels and their taints."""

    def __init__(
        self,
        allocatable: Mapping[str, Any],
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ):
        self.text = {name: str(amount) for name, amount in allocatable.items()}
        self.whole = {name: parse_resource(text) for name, text in self.text.items()}
        self.labels = dict(labels or {})
        self.taints = list(taints)

    def lacks(self, amounts: Amounts) -> str | None:
        """Return a resource of which a node has too little; None if there is none."""
        return next((n for n, amount in amounts.items() if amount > self.whole.get(n, 0)), None)

    def holds(self, amounts: Amounts, pods: int) -> int:
        """Return how many pods an empty node holds; all of them if they ask for nothing."""
        return min((int(self.whole.get(n, 0) // each) for n, each in amounts.items()), default=pods)


class VirtualCluster:
    """A cluster of `count` equal nodes `sim-0`, `sim-1` ... with `allocatable` quantities each.

    `grow` adds nodes of `templates`: `NAME-0`, `NAME-1` ... `report` may be called from any thread,
    all other methods from one only.
    """

    def __init__(
        self, count: int, allocatable: Mapping[str, str], templates: Iterable[NodeTemplate] = ()
    ):
        own = self._own = _Kind(allocatable)
        self._templates = {each["name"]: each for each in templates}
        self._added: Counter[str] = Counter()
        self._of_template = {
            name: _Kind(each["resources"], each["labels"], each["taints"])
            for name, each in self._templates.items()
        }
        self._names = [f"sim-{number}" for number in range(count)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._kinds = [own] * count
        self._free: list[dict[str, Decimal]] = [own.whole] * count
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
        lacking = [kind.lacks(amounts) for kind in (self._own, *self._of_template.values())]
        return None if None in lacking else lacking[0]

    def template_for(self, labels: Mapping[str, str]) -> str | None:
        """Return a template with these labels of which a node can be added; None if there is
        none."""
        for name, each in self._templates.items():
            if each["labels"] == labels and self._added[name] < each["max"]:
                return name
        return None

    def grow(self, template: str) -> None:
        """Add a node of a template."""
        kind, number = self._of_template[template], len(self._names)
        name = f"{template}-{self._added[template]}"
        with self._lock:
            self._added[template] += 1
            self._names.append(name)
            self._numbers[name] = number
            self._kinds.append(kind)
            self._free.append(kind.whole)
            self._up.append(True)
            self._nodes.append(self._node(number))

    def place(
        self,
        amounts: Amounts,
        pods: int,
        avoid: str = "",
        left_out: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> tuple[int, ...] | None:
        """Book one node for each pod, or none at all; None if there is no room at present.

        The search goes on where the last one ended, so that placing a session is quick while there
        is room. The node named `avoid` is left out, unless the other nodes that are up could not
        hold the pods even if they were empty; those in `left_out`, and those without the `labels`,
        are left out in any case.
        """
        wanted = (labels or {}).items()
        avoided = {self._avoided(amounts, pods, avoid), *map(self._numbers.get, left_out)}
        found: list[int] = []
        number, looked = self._next, 0
        while len(found) < pods and looked < len(self._names):
            usable = self._up[number] and number not in avoided
            usable = usable and wanted <= self._kinds[number].labels.items()
            if usable and self._book(number, amounts):
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
        others = (n for n, up in enumerate(self._up) if up and n != node)
        return node if sum(self._kinds[n].holds(amounts, pods) for n in others) >= pods else None

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
        free, kind = self._free[number], self._kinds[number]
        return Node(
            name=self._names[number],
            allocatable=kind.text,
            free=kind.text if free is kind.whole else {n: _text(a) for n, a in free.items()},
            labels=kind.labels,
            taints=kind.taints,
        )


def _text(amount: Decimal) -> str:
    """Return the amount in base units; a fraction in thousandths."""
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"
