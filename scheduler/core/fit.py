"""Fit: whether a session fits on an executor's nodes. Pure; amounts are Kubernetes quantities."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

from base.podspec.quantity import parse
from base.podspec.resources import Amounts, total
from scheduler.core.lacks import Candidate, Lacks, lacks_of
from scheduler.core.node_rules import ALL_NODES, ANY_NODE, LABEL, NodeRules

UNLIMITED_IF_UNKNOWN = frozenset({"ephemeral-storage"})
ANOTHER_NODE = "another node"
ONE_NODE = "one node with all of it"
NO_NODE = "a node"
PODS = "pods at once"
QUARANTINE = "a node that is not in quarantine"
POD_SLOTS = "pods"
"""The resource of nodes that each pod takes one of."""
SLOTS = "max_pods"
"""Key of a node's facts: how many pods of Reprise it can hold at once; none if that is unknown."""
_UNLIMITED = 10**9
Avoid = str | frozenset[str]
"""Names of nodes that do not count for a session: one, "" for none, or several."""
OTHERS = "others"
"""Key of a node's facts: the amounts that pods outside Reprise hold there."""
_NONE, _ONE = Decimal(0), Decimal(1)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a session does not fit: the resource, and whether it ever could.

    The resource is `ANOTHER_NODE` if only the avoided node could ever hold it, `ONE_NODE` if no
    node has enough of everything, `PODS` if not all of its pods fit at the same time, `QUARANTINE`
    if all other nodes are in quarantine, and "label ..." or "taint ..." if its rules exclude every
    node: what the nearest node lacks. `lacks` is told only where people are to read it.
    """

    resource: str
    wanted: Decimal
    available: Decimal
    ever: bool
    lacks: Lacks | None = field(default=None, compare=False)


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


class Opening(NamedTuple):
    """What a node that a session may use has free."""

    free: Amounts
    slots: int

    def holds(self, ask: Ask, freed: Amounts, pods: int) -> int:
        """Return how many of the session's pods fit once `pods` with the amounts `freed` end."""
        room = {n: self.free.get(n, _NONE) + freed.get(n, _NONE) for n in ask.counted}
        most = min(ask.pods, self.slots + pods)
        return _pods_in(room, ask, most) if most > 0 else 0


class _Node:
    """A node and its free amounts."""

    __slots__ = ("closed", "exists", "facts", "free", "kept", "name", "others", "slots", "whole")

    def __init__(self, facts: Mapping[str, Any], *, exists: bool = True):
        self.closed = False
        """Whether it takes nothing new."""
        self.kept = False
        """True if room on it is kept for somebody."""
        self.exists = exists
        """Whether it is there; if not, the cluster can add it."""
        self.name: str = facts.get("name", "")
        self.whole = {name: parse(value) for name, value in facts.get("allocatable", {}).items()}
        self.others = {name: parse(value) for name, value in facts.get(OTHERS, {}).items()}
        self.free = self.whole
        if self.others:
            self.take(self.others, 1)
        self.facts = facts
        self.slots: int = _UNLIMITED if facts.get(SLOTS) is None else facts[SLOTS]
        """How many more pods it takes, however little they ask for."""

    def take(self, wanted: Amounts, pods: int) -> None:
        self.free = dict(self.free)
        for name, value in wanted.items():
            self.free[name] = self.free.get(name, _NONE) - value * pods

    def place(self, wanted: Amounts, pods: int) -> None:
        self.take(wanted, pods)
        self.slots -= pods

    @property
    def ours(self) -> Amounts:
        """Return what it has when only pods outside Reprise are there."""
        return {name: value - self.others.get(name, _NONE) for name, value in self.whole.items()}


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


class _Template:
    """The nodes of a template: those that exist, then those that the cluster can still add."""

    __slots__ = ("empty", "name", "nodes")

    def __init__(self, facts: Mapping[str, Any], nodes: Iterable[_Node]):
        self.name: str = facts["name"]
        labels, resources = facts["labels"].items(), facts["resources"]
        existing = [each for each in nodes if labels <= (each.facts.get("labels") or {}).items()]
        slots = int(parse(resources[POD_SLOTS])) if POD_SLOTS in resources else None
        facts = {**facts, "name": "", "allocatable": resources, SLOTS: slots}
        self.empty = _Node(facts, exists=False)
        missing = max(facts["max"] - len(existing), 0)
        self.nodes = existing + [copy(self.empty) for _ in range(missing)]

    def could_hold(self, ask: Ask) -> bool:
        """Return whether a pod of a session could be on a node of this template."""
        return not ask.rules.refusal(self.empty.facts) and _pods_in(self.empty.whole, ask, 1) > 0


class Room:
    """The free amounts on an executor's nodes. They only decrease: what was full stays full.

    `held` is usage whose node is unknown; it is subtracted from the total of all nodes. `templates`
    are the node templates of the executor, as `podspec/node_templates.py` reads them: what has no
    room now fits, too, if one of them can bring nodes for it. The pods of a session are then all
    on nodes of that template.
    """

    def __init__(
        self,
        nodes: Iterable[Mapping[str, Any]],
        held: Iterable[Amounts],
        templates: Iterable[Mapping[str, Any]] = (),
    ):
        self._nodes = [_Node(node) for node in nodes]
        self._by_name = {node.name: node for node in self._nodes}
        self._templates = {each["name"]: _Template(each, self._nodes) for each in templates}
        self._groups = [self._nodes, *(each.nodes for each in self._templates.values())]
        """The nodes on which the pods of one session can be together."""
        self._largest: Amounts = {}
        for node in chain.from_iterable(self._groups):
            for name, value in node.whole.items():
                self._largest[name] = max(value, self._largest.get(name, value))
        self.whole = total(node.whole for node in self._nodes)
        """Total of all nodes when they are empty."""
        self._free = dict(self.whole)
        self._passed: dict[Any, int] = {}
        self._take_pool(total(node.others for node in self._nodes))
        self._take_pool(total(held))

    def sizes(self, name: str) -> set[Decimal]:
        """Return the amounts of a resource that its nodes have when they are empty."""
        nodes = chain.from_iterable(self._groups)
        return {node.whole[name] for node in nodes if name in node.whole}

    def misfit(self, wanted: Amounts | Ask, avoid: Avoid = "") -> Misfit | None:
        """Return why the session does not fit, None if it fits. What never could fit comes first.

        `avoid` are the names of nodes that do not count for this session.
        """
        ask, avoid = _ask(wanted), _names(avoid)
        fits = self._fits(ask, avoid) or self._on_template(ask, avoid) is not None
        return None if fits else self._reason(ask, avoid)

    def place(self, ask: Ask, avoid: Avoid = "") -> list[str] | None:
        """Take room for a session. Return its nodes, one a rank; None if it does not fit now.

        An executor without nodes has none to name.
        """
        avoid = _names(avoid)
        if not any(self._groups):
            return [] if self._fits(ask, avoid) else None
        whole = ask.whole
        if any(whole[name] > self._free.get(name, _NONE) for name in ask.counted):
            return None
        spots = self._spots(ask, avoid)
        if spots is None:
            return None
        self._take_pool(whole)
        for node, pods in spots:
            node.place(ask.amounts, pods)
        return [node.name for node, pods in spots for _ in range(pods)]

    def place_on(self, ask: Ask, names: Sequence[str], avoid: Avoid = "") -> list[str] | None:
        """Take room for a session on some of these nodes, as `place` does on any."""
        there = frozenset(names)
        others = (name for name in self._by_name if name not in there)
        return self.place(ask, _names(avoid).union(others))

    def grow(self, ask: Ask, avoid: Avoid = "") -> str | None:
        """Take room for a session on nodes of a template, of which the cluster has to add some.

        Return the name of the first template that can bring them; None if there is none.
        """
        found = self._on_template(ask, _names(avoid))
        if found is None:
            return None
        template, spots = found
        self._book(spots, ask)
        return template.name

    def refuse(self, refusals: Mapping[str, Iterable[str]]) -> None:
        """Give out nothing more of these resources, by node: the cluster says that they lack."""
        for name in refusals.keys() & self._by_name.keys():
            node = self._by_name[name]
            node.free = {**node.free, **dict.fromkeys(refusals[name], _NONE)}
            if POD_SLOTS in refusals[name]:
                node.slots = 0

    def close(self, names: Iterable[str]) -> None:
        """Give out nothing more of these nodes; what runs there goes on."""
        for name in names:
            if name in self._by_name:
                self._by_name[name].closed = True

    def openings(self, ask: Ask, avoid: Avoid = "") -> dict[str, Opening]:
        """Return what is free on the nodes that could ever hold a pod of a session, by name.

        An executor without nodes has one without a name, for what asks for nothing.
        """
        avoid = _names(avoid)
        if not any(self._groups):
            return {"": Opening({}, _UNLIMITED)} if self._fits(ask, avoid) else {}
        return {
            node.name: Opening(node.free, node.slots)
            for node in self._nodes
            if not self._excluded(node, ask, avoid) and _pods_in(node.whole, ask, 1)
        }

    def keep(self, nodes: Sequence[str], ask: Ask | None = None) -> bool:
        """Keep nodes free that were reserved before. Return False if one is gone or closed.

        If `ask` is that of the session and it has one pod, only its amounts are kept: others get
        what is free beside them. Which of several pods goes where is open, so their nodes are kept.
        """
        if not nodes or any(
            name not in self._by_name or self._by_name[name].closed for name in nodes
        ):
            return False
        for name in nodes:
            self._by_name[name].kept = True
        if ask is not None and ask.pods == 1 and len(nodes) == 1:
            self._by_name[nodes[0]].place(ask.amounts, 1)
            return True
        for name in nodes:
            self._by_name[name].free = {}
        return True

    def reserve(self, ask: Ask, avoid: Avoid = "") -> list[str]:
        """Reserve the nodes on which a session will fit first, by what is free on them now.

        Nodes where others than Reprise hold too much come last, and before those the nodes on which
        something is kept already. Return their names; none if they could not hold all of its pods.
        """
        avoid = _names(avoid)
        able = [
            node
            for node in self._nodes
            if not self._excluded(node, ask, avoid) and _pods_in(node.whole, ask, 1)
        ]
        able.sort(
            key=lambda n: (not _pods_in(n.ours, ask, 1), n.kept, -_share_free(n, ask)),
        )
        missing, reserved = ask.pods, list[_Node]()
        for node in able:
            if missing <= 0:
                break
            missing -= _pods_in(node.whole, ask, ask.pods)
            reserved.append(node)
        if missing > 0:
            return []
        for node in reserved:
            node.free, node.kept = {}, True
        return [node.name for node in reserved]

    def take(self, wanted: Amounts | Ask, nodes: Sequence[str] = (), template: str = "") -> None:
        """Subtract a lease: from its `nodes`, one a rank, if all are known, else where it fits.

        If it fits nowhere, subtract it only from the total of all nodes. A lease that waits for
        nodes of a `template` is subtracted only from those, as far as they have room.
        """
        ask = _ask(wanted)
        known = len(nodes) == ask.pods and all(name in self._by_name for name in nodes)
        if template in self._templates and not known:
            # Nothing else of its rules is known here.
            self._book(self._spots(replace(ask, rules=ALL_NODES), NOTHING, template) or (), ask)
            return
        self._take_pool(ask.whole)
        if known:
            for name in nodes:
                self._by_name[name].place(ask.amounts, 1)
            return
        for spot, pods in self._spots(ask, NOTHING) or ():
            spot.place(ask.amounts, pods)

    def _book(self, spots: Iterable[tuple[_Node, int]], ask: Ask) -> None:
        """Take room on nodes of a template, and from the total as far as they exist."""
        for node, pods in spots:
            node.place(ask.amounts, pods)
            if node.exists:
                self._take_pool({name: value * pods for name, value in ask.amounts.items()})

    def _take_pool(self, wanted: Amounts) -> None:
        for name, value in wanted.items():
            self._free[name] = self._free.get(name, _NONE) - value

    def _fits(self, ask: Ask, avoid: frozenset[str]) -> bool:
        if not any(self._groups):
            # An executor without nodes runs only sessions that ask for nothing.
            return ask.rules.any_node and not any(ask.amounts[name] for name in ask.counted)
        whole = ask.whole
        if any(whole[name] > self._free.get(name, _NONE) for name in ask.counted):
            return False
        return self._spots(ask, avoid) is not None

    def _on_template(
        self, ask: Ask, avoid: frozenset[str]
    ) -> tuple[_Template, list[tuple[_Node, int]]] | None:
        """Return the first template with room for all pods, and its nodes for them, else None."""
        for template in self._templates.values():
            # The nodes of a template are many and alike.
            spots = self._spots(ask, avoid, template.name) if template.could_hold(ask) else None
            if spots is not None:
                return template, spots
        return None

    def _spots(
        self, ask: Ask, avoid: frozenset[str], template: str = ""
    ) -> list[tuple[_Node, int]] | None:
        """Return the first nodes with room for all pods, and the pods of each, else None.

        They are nodes that exist, or those of a template.
        """
        nodes = self._templates[template].nodes if template else self._nodes
        key = (frozenset(ask.amounts.items()), ask.pods, ask.rules, avoid, template)
        found, missing, first = [], ask.pods, True
        for position in range(self._passed.get(key, 0), len(nodes)):
            node = nodes[position]
            most = min(missing, node.slots)
            excluded = most <= 0 or self._excluded(node, ask, avoid)
            pods = 0 if excluded else _pods_in(node.free, ask, most)
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
            self._passed[key] = len(nodes)
        return None

    @staticmethod
    def _excluded(node: _Node, ask: Ask, avoid: frozenset[str]) -> bool:
        return node.closed or node.name in avoid or bool(ask.rules.refusal(node.facts))

    def _reason(self, ask: Ask, avoid: frozenset[str]) -> Misfit:
        """Return the reason why the session does not fit."""
        return self.never(ask, avoid) or self._not_now(ask, avoid)

    def never(self, ask: Ask, avoid: Avoid = "") -> Misfit | None:
        """Return why a session would not fit even on empty nodes; None if it would."""
        avoid = _names(avoid)
        if not any(self._groups) and self._fits(ask, avoid):
            return None
        for name in ask.counted:
            largest = self._largest.get(name, _NONE)
            if ask.amounts[name] > largest:
                return Misfit(name, ask.amounts[name], largest, ever=False)
        allowed = [[n for n in nodes if not ask.rules.refusal(n.facts)] for nodes in self._groups]
        if not any(allowed):
            refusals = {ask.rules.refusal(node.facts) for node in chain(*self._groups)}
            return Misfit(_nearest(refusals), _ONE, _NONE, ever=False)
        pods = _most_pods(allowed, ask)
        if pods < ask.pods:
            return _too_few(ask, pods)
        # A node in quarantine may open again, but nobody waits for that instead of an avoided one.
        if avoid:
            others = [
                [n for n in nodes if not n.closed and n.name not in avoid] for nodes in allowed
            ]
            if _most_pods(others, ask) < ask.pods:
                return Misfit(ANOTHER_NODE, _ONE, _NONE, ever=False)
        return None

    def explained(self, ask: Ask, avoid: Avoid = "") -> Misfit | None:
        """Return the same as `never`, with what the nodes lack if each of them lacks something."""
        misfit = self.never(ask, avoid)
        if misfit is None or misfit.resource == ANOTHER_NODE:
            return misfit
        nodes = [Candidate(f"node {n.name}", n.facts, n.whole) for n in self._nodes]
        nodes += [
            Candidate(f"a node of template {name}", each.empty.facts, each.empty.whole)
            for name, each in self._templates.items()
        ]
        wanted = {name: ask.amounts[name] for name in ask.counted}
        return replace(misfit, lacks=lacks_of(nodes, ask.rules, wanted))

    def _not_now(self, ask: Ask, avoid: frozenset[str]) -> Misfit:
        whole = ask.whole
        for name in ask.counted:
            free = self._free.get(name, _NONE)
            if whole[name] > free:
                return Misfit(name, whole[name], free, ever=True)
        allowed = [n for n in chain(*self._groups) if not self._excluded(n, ask, avoid)]
        if not allowed:
            return Misfit(QUARANTINE, _ONE, _NONE, ever=True)
        for name in ask.counted:
            most = max(node.free.get(name, _NONE) for node in allowed)
            if ask.amounts[name] > most:
                return Misfit(name, ask.amounts[name], max(most, _NONE), ever=True)
        return Misfit(PODS if ask.pods > 1 else ONE_NODE, Decimal(ask.pods), _NONE, ever=True)


def _most_pods(groups: Iterable[Iterable[_Node]], ask: Ask) -> int:
    """Return how many pods the nodes of one group could hold together when empty, at most."""
    return max(sum(_pods_in(node.whole, ask, ask.pods) for node in nodes) for nodes in groups)


def _nearest(refusals: Iterable[str]) -> str:
    """Return what excludes the nearest node: a taint if one has all labels, else labels."""
    found = sorted(refusals, key=lambda each: (each.startswith(f"{LABEL} "), each))
    return next(iter(found), NO_NODE)


def _too_few(ask: Ask, pods: int) -> Misfit:
    if ask.pods > 1:
        return Misfit(PODS, Decimal(ask.pods), Decimal(pods), ever=False)
    return Misfit(ONE_NODE, _ONE, _NONE, ever=False)


NOTHING: frozenset[str] = frozenset()


def _names(avoid: Avoid) -> frozenset[str]:
    if isinstance(avoid, frozenset):
        return avoid
    return frozenset((avoid,)) if avoid else NOTHING


def _ask(wanted: Amounts | Ask) -> Ask:
    return wanted if isinstance(wanted, Ask) else Ask(wanted)
