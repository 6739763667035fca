"""What others than Reprise hold on an executor's nodes. Pure; amounts are Kubernetes quantities.

A node says what it has and what is free. What lies between is held by the runs that the executor
named in the same call, or else by somebody whom Reprise does not know.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from podspec.quantity import parse
from podspec.resources import Amounts
from scheduler.core.fit import OTHERS

_NONE = Decimal(0)


class Known(NamedTuple):
    """What runs of ours take on a node together; "" while nobody knows on which."""

    node: str
    amounts: Amounts


def crowded(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether anything is held on any of the nodes, by whomever."""
    return any(_held(node) for node in nodes)


def with_others(nodes: Sequence[Mapping[str, Any]], known: Iterable[Known]) -> list[dict[str, Any]]:
    """The nodes, each with what `OTHERS` hold there where that is something.

    Runs of ours of which the node is not known explain what is held wherever it is: rather a pod
    that waits for its node than one that is not asked for.
    """
    held = {node["name"]: _held(node) for node in nodes}
    nowhere: Amounts = {}
    for run in known:
        on_node = held.get(run.node)
        for name, amount in run.amounts.items():
            if on_node is None:
                nowhere[name] = nowhere.get(name, _NONE) + amount
            elif name in on_node:
                on_node[name] -= min(amount, on_node[name])
    for on_node in held.values():
        for name in on_node.keys() & nowhere.keys():
            explained = min(on_node[name], nowhere[name])
            on_node[name] -= explained
            nowhere[name] -= explained
    return [_marked(node, held[node["name"]]) for node in nodes]


def _held(node: Mapping[str, Any]) -> Amounts:
    """What is not free, of the resources of which the node says both."""
    has, free = node["allocatable"], node["free"]
    held = {name: parse(has[name]) - parse(free[name]) for name in has.keys() & free.keys()}
    return {name: amount for name, amount in held.items() if amount > 0}


def _marked(node: Mapping[str, Any], held: Amounts) -> dict[str, Any]:
    others = {name: f"{amount.normalize():f}" for name, amount in held.items() if amount}
    return {**node, OTHERS: others} if others else dict(node)
