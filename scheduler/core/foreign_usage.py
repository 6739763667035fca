"""Foreign usage: what others than Reprise hold on an executor's nodes. Pure.

Amounts are Kubernetes quantities. A node reports what it has and what is free. The difference is
held by the runs that the executor named in the same call, or else by others.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from base.podspec.quantity import parse
from base.podspec.resources import Amounts
from scheduler.core.fit import OTHERS

_NONE = Decimal(0)


class Known(NamedTuple):
    """Amounts that runs of Reprise hold on a node together; the node is "" if unknown."""

    node: str
    amounts: Amounts


def crowded(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether anything is held on any of the nodes."""
    return any(_held(node) for node in nodes)


def with_others(nodes: Sequence[Mapping[str, Any]], known: Iterable[Known]) -> list[dict[str, Any]]:
    """Return the nodes, each with the amounts that `OTHERS` hold there, if any.

    Our runs whose node is unknown are subtracted on any node: it is better to grant a lease whose
    pod has to wait for its node than to grant none.
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
    """Return the amounts that are not free, of resources with both a total and a free amount."""
    has, free = node["allocatable"], node["free"]
    held = {name: parse(has[name]) - parse(free[name]) for name in has.keys() & free.keys()}
    return {name: amount for name, amount in held.items() if amount > 0}


def _marked(node: Mapping[str, Any], held: Amounts) -> dict[str, Any]:
    others = {name: f"{amount.normalize():f}" for name, amount in held.items() if amount}
    return {**node, OTHERS: others} if others else dict(node)
