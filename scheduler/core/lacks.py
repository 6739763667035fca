"""What nodes lack for a session: what most of them lack, and what the nearest one lacks. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from base.podspec.resources import Amounts
from scheduler.core.node_rules import LABEL, TAINT, NodeRules

_NONE = Decimal(0)


class Lack(NamedTuple):
    """Something that an empty node lacks: a resource, "label ..." or "taint ..."."""

    what: str
    wanted: Decimal
    has: Decimal


class Lacks(NamedTuple):
    """What the nodes of an executor lack. None of them could run the session, even if empty."""

    nodes: int
    most: str
    """What most nodes lack."""
    most_nodes: int
    """How many nodes lack that."""
    nearest: str
    """The name of the node that lacks least."""
    short: Sequence[Lack]
    """All that this node lacks."""

    @property
    def common(self) -> bool:
        """Return whether every node lacks the same, and the nearest one nothing else."""
        return self.most_nodes == self.nodes and [each.what for each in self.short] == [self.most]


class Candidate(NamedTuple):
    """An empty node. `facts` are its labels and taints."""

    name: str
    facts: Mapping[str, Any]
    whole: Amounts


def lacks_of(
    nodes: Sequence[Candidate], rules: NodeRules, wanted: Mapping[str, Decimal]
) -> Lacks | None:
    """Return what nodes lack for a pod with these amounts; None if one lacks nothing."""
    found = [(_short(each, rules, wanted), each.name) for each in nodes]
    if not found or not all(short for short, _ in found):
        return None
    short, name = min(found, key=lambda each: (*_distance(each[0]), each[1]))
    counts = Counter(lack.what for all_of, _ in found for lack in all_of)
    mine = {lack.what for lack in short}
    # What the nearest node lacks is told anyway.
    most, number = max(counts.items(), key=lambda each: (each[1], each[0] not in mine, each[0]))
    return Lacks(len(found), most, number, name, short)


def _short(node: Candidate, rules: NodeRules, wanted: Mapping[str, Decimal]) -> list[Lack]:
    refusals = [Lack(each, Decimal(1), _NONE) for each in rules.refusals(node.facts)]
    amounts = ((name, amount, node.whole.get(name, _NONE)) for name, amount in wanted.items())
    return [*refusals, *(Lack(*each) for each in amounts if each[1] > each[2])]


def _distance(short: Sequence[Lack]) -> tuple[int, int, int]:
    """Return how far a node is: of two that lack one thing, one with a taint is nearer than one
    that is too small, and that nearer than one that is of another kind."""
    labels = sum(each.what.startswith(f"{LABEL} ") for each in short)
    taints = sum(each.what.startswith(f"{TAINT} ") for each in short)
    return len(short), labels, -taints
