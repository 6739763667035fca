"""Fit: whether a session fits on an executor's nodes. Pure; amounts are Kubernetes quantities."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from podspec.quantity import parse
from podspec.resources import Amounts, total
from scheduler.core.node_rules import ANY_NODE, NodeRules

UNLIMITED_IF_UNKNOWN = frozenset({"ephemeral-storage"})
ANOTHER_NODE = "another node"
ONE_NODE = "one node with all of it"
PODS = "pods at once"
OTHERS = "others"
"""Key of a node's facts: the amounts that pods outside Reprise hold there."""
_NONE, _ONE = Decimal(0), Decimal(1)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a session does not fit: the resource, and whether it ever could.

    The resource is `ANOTHER_NODE` if only the avoided node could ever hold it, `ONE_NODE` if no
    node has enough of everything, `PODS` if not all of its pods fit at the same time, and "label
    ..." or "taint ..." if its rules exclude every node.
    """

    resource: str
    wanted: Decimal
    available: Decimal
    ever: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of a session: amounts for each of its pods, on nodes that its rules allow."""

    amounts: Amounts
    pods: int = 1
    rules: NodeRules = ANY_NODE

    @property
    def counted(self) -> list[str]:
        """Return the names of the resources that must suffice, sorted."""
        return sorted(self.amounts.keys() - UNLIMITED_IF_UNKNOWN)

    @property
    def whole(self) -> Amounts:
        """Return the amounts of all pods together."""
        return {name: value * self.pods for name, value in self.amounts.items()}


class _Node:
    """A node and its free amounts."""

    __slots__ = ("facts", "free", "name", "others", "whole")

    def __init__(self, facts: Mapping[str, Any]):
        self.name: str = facts.get("name", "")
        self.whole = {name: parse(value) for name, value in facts.get("allocatable", {}).items()}
        self.others = {name: parse(value) for name, value in facts.get(OTHERS, {}).items()}
        self.free = self.whole
        if self.others:
            self.take(self.others, 1)
        self.facts = facts

    def take(self, wanted: Amounts, pods: int) -> None:
        self.free = dict(self.free)
        for name, value in wanted.items():
            self.free[name] = self.free.get(name, _NONE) - value * pods


def _pods_in(room: Amounts, ask: Ask, most: int) -> int:
    """Return how many pods `room` can hold, at most `most`."""
    for name in ask.counted:
        wanted, has = ask.amounts[name], room.get(name, _NONE)
        if wanted > has:
            return 0
        if wanted and most > 1:
            most = min(most, int(has // wanted))
    return most


def _share_free(node: _Node, ask: Ask) -> Decimal:
    """Return the free part of what a pod wants of its scarcest resource on a node."""
    return min(
        (node.free.get(n, _NONE) / ask.amounts[n] for n in ask.counted if ask.amounts[n]),
        default=_ONE,
    )


class Room:
    """The free amounts on an executor's nodes. They only decrease: what was full stays full.

    `held` is usage whose node is unknown; it is subtracted from the total of all nodes.
    """

    def __init__(self, nodes: Iterable[Mapping[str, Any]], held: Iterable[Amounts]):
        self._nodes = [_Node(node) for node in nodes]
        self._by_name = {node.name: node for node in self._nodes}
        self._largest: Amounts = {}
        for node in self._nodes:
            for name, value in node.whole.items():
                self._largest[name] = max(value, self._largest.get(name, value))
        self.whole = total(node.whole for node in self._nodes)
        """Total of all nodes when they are empty."""
        self._free = dict(self.whole)
        self._passed: dict[Any, int] = {}
        self._take_pool(total(node.others for node in self._nodes))
        self._take_pool(total(held))

    def misfit(self, wanted: Amounts | Ask, avoid: str = "") -> Misfit | None:
        """Return why the session does not fit, None if it fits. What never could fit comes first.

        `avoid` is the name of a node that does not count for this session.
        """
        ask = _ask(wanted)
        return None if self._fits(ask, avoid) else self._reason(ask, avoid)

    def place(self, ask: Ask, avoid: str = "") -> bool:
        """Take room for a session if it fits. Return whether it did."""
        if not self._nodes:
            return self._fits(ask, avoid)
        whole = ask.whole
        if any(whole[name] > self._free.get(name, _NONE) for name in ask.counted):
            return False
        spots = self._spots(ask, avoid)
        if spots is None:
            return False
        self._take_pool(whole)
        for node, pods in spots:
            node.take(ask.amounts, pods)
        return True

    def reserve(self, ask: Ask, avoid: str = "") -> None:
        """Reserve the nodes on which a session will fit first, by what is free on them now."""
        able = [
            node
            for node in self._nodes
            if not self._excluded(node, ask, avoid) and _pods_in(node.whole, ask, 1)
        ]
        able.sort(key=lambda node: -_share_free(node, ask))
        missing = ask.pods
        for node in able:
            if missing <= 0:
                return
            missing -= _pods_in(node.whole, ask, ask.pods)
            node.free = {}

    def take(self, wanted: Amounts | Ask, avoid: str = "", node: str = "") -> None:
        """Subtract a lease: from `node` if it is known, else where it fits first.

        If it fits nowhere, subtract it only from the total of all nodes.
        """
        ask = _ask(wanted)
        self._take_pool(ask.whole)
        if node and node in self._by_name and ask.pods == 1:
            self._by_name[node].take(ask.amounts, 1)
            return
        for spot, pods in self._spots(ask, avoid) or ():
            spot.take(ask.amounts, pods)

    def _take_pool(self, wanted: Amounts) -> None:
        for name, value in wanted.items():
            self._free[name] = self._free.get(name, _NONE) - value

    def _fits(self, ask: Ask, avoid: str) -> bool:
        if not self._nodes:
            # An executor without nodes runs only sessions that ask for nothing.
            return ask.rules.any_node and not any(ask.amounts[name] for name in ask.counted)
        whole = ask.whole
        if any(whole[name] > self._free.get(name, _NONE) for name in ask.counted):
            return False
        return self._spots(ask, avoid) is not None

    def _spots(self, ask: Ask, avoid: str) -> list[tuple[_Node, int]] | None:
        """Return the first nodes with room for all pods, and the pods of each, else None."""
        key = (frozenset(ask.amounts.items()), ask.pods, ask.rules, avoid)
        found, missing, first = [], ask.pods, True
        for position in range(self._passed.get(key, 0), len(self._nodes)):
            node = self._nodes[position]
            pods = 0 if self._excluded(node, ask, avoid) else _pods_in(node.free, ask, missing)
            if first:
                # Free amounts only decrease, so a node without room for this ask stays without.
                self._passed[key] = position
            if pods:
                first = False
                found.append((node, pods))
                missing -= pods
                if not missing:
                    return found
        if first:
            self._passed[key] = len(self._nodes)
        return None

    @staticmethod
    def _excluded(node: _Node, ask: Ask, avoid: str) -> bool:
        return bool(avoid and node.name == avoid) or bool(ask.rules.refusal(node.facts))

    def _reason(self, ask: Ask, avoid: str) -> Misfit:
        """Return the reason why the session does not fit."""
        return self._never(ask, avoid) or self._not_now(ask, avoid)

    def _never(self, ask: Ask, avoid: str) -> Misfit | None:
        """Return the reason why it would not fit even on empty nodes; None if it would."""
        for name in ask.counted:
            largest = self._largest.get(name, _NONE)
            if ask.amounts[name] > largest:
                return Misfit(name, ask.amounts[name], largest, ever=False)
        allowed = [node for node in self._nodes if not ask.rules.refusal(node.facts)]
        if not allowed:
            refusals = (ask.rules.refusal(node.facts) for node in self._nodes)
            return Misfit(next(refusals, "a node"), _ONE, _NONE, ever=False)
        pods = sum(self._holders(allowed, ask, ""))
        if pods < ask.pods:
            return _too_few(ask, pods)
        others = sum(self._holders(allowed, ask, avoid)) if avoid else pods
        if others < ask.pods:
            return Misfit(ANOTHER_NODE, _ONE, _NONE, ever=False)
        return None

    @staticmethod
    def _holders(nodes: Iterable[_Node], ask: Ask, avoid: str) -> Iterator[int]:
        """Yield how many pods each node could hold when empty, at most as many as the ask has."""
        for node in nodes:
            if not avoid or node.name != avoid:
                yield _pods_in(node.whole, ask, ask.pods)

    def _not_now(self, ask: Ask, avoid: str) -> Misfit:
        whole = ask.whole
        for name in ask.counted:
            free = self._free.get(name, _NONE)
            if whole[name] > free:
                return Misfit(name, whole[name], free, ever=True)
        allowed = [node for node in self._nodes if not self._excluded(node, ask, avoid)]
        for name in ask.counted:
            most = max(node.free.get(name, _NONE) for node in allowed)
            if ask.amounts[name] > most:
                return Misfit(name, ask.amounts[name], max(most, _NONE), ever=True)
        return Misfit(PODS if ask.pods > 1 else ONE_NODE, Decimal(ask.pods), _NONE, ever=True)


def _too_few(ask: Ask, pods: int) -> Misfit:
    if ask.pods > 1:
        return Misfit(PODS, Decimal(ask.pods), Decimal(pods), ever=False)
    return Misfit(ONE_NODE, _ONE, _NONE, ever=False)


def _ask(wanted: Amounts | Ask) -> Ask:
    return wanted if isinstance(wanted, Ask) else Ask(wanted)
