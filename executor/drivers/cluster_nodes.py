"""What nodes a cluster has, and what others leave free on them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

from reprise_client.wire import Node

from executor import quantity
from executor.drivers.kubernetes_api import ApiRefusal, Cluster, Object

log = logging.getLogger(__name__)

Amounts = dict[str, Decimal]

_ALIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_UNWANTED = frozenset({"attachable-volumes", "hugepages", "pods"})


class NodeSurvey:
    """Looks every `seconds` seconds. `nodes` may be read by any thread.

    What pods of others have requested is taken off what can be allocated: the server itself takes
    off what the sessions hold that it has placed here. `ours` is the label, `name=value`, of those.
    """

    def __init__(self, cluster: Cluster, ours: str, seconds: float):
        self._cluster = cluster
        self._ours = ours.partition("=")
        self._seconds = seconds
        self._failing = False
        self.nodes: list[Node] = []

    async def keep(self) -> None:
        while True:
            try:
                self.nodes = await self._look()
            except ApiRefusal as refusal:
                if not self._failing:
                    log.warning("the nodes are not known: %s", refusal)
                self._failing = True
            else:
                self._failing = False
            await asyncio.sleep(self._seconds)

    async def _look(self) -> list[Node]:
        nodes = (await self._cluster.list("/api/v1/nodes")).items
        pods = (await self._cluster.list("/api/v1/pods", fields=_ALIVE, take=self._share)).items
        taken: dict[str, Amounts] = defaultdict(Amounts)
        mine: dict[str, Amounts] = defaultdict(Amounts)
        for pod in pods:
            _sum((mine if pod["ours"] else taken)[pod["node"]], pod["requests"])
        return [_node(each, taken, mine) for each in nodes if _takes_pods(each)]

    def _share(self, pod: Object) -> Object:
        """All that counts of a pod: a cluster may have tens of thousands."""
        label, _, value = self._ours
        labels = pod["metadata"].get("labels") or {}
        ours = labels.get(label) == value
        return {"node": pod["spec"]["nodeName"], "ours": ours, "requests": requests_of(pod)}


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """What the scheduler keeps for a pod: its containers together, or the largest of those that run
    before them, whichever is more."""
    spec = pod.get("spec") or {}
    together: Amounts = defaultdict(Decimal)
    for container in spec.get("containers") or ():
        _sum(together, _requests(container))
    for container in spec.get("initContainers") or ():
        for name, amount in _requests(container).items():
            together[name] = max(together[name], amount)
    _sum(together, _amounts(spec.get("overhead") or {}))
    return dict(together)


def _requests(container: Mapping[str, Any]) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests") or {})


def _amounts(said: Mapping[str, Any]) -> Amounts:
    amounts = {}
    for name, text in said.items():
        with suppress(ValueError):
            amounts[name] = quantity.parse(str(text))
    return amounts


def _sum(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _takes_pods(node: Object) -> bool:
    conditions: Iterable[Mapping[str, Any]] = (node.get("status") or {}).get("conditions") or ()
    states = {each.get("type"): each.get("status") for each in conditions}
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return states.get("Ready") == "True" and not cordoned


def _node(node: Object, taken: Mapping[str, Amounts], mine: Mapping[str, Amounts]) -> Node:
    name = node["metadata"]["name"]
    whole = {
        resource: amount
        for resource, amount in _amounts(
            (node.get("status") or {}).get("allocatable") or {}
        ).items()
        if not resource.startswith(tuple(_UNWANTED))
    }
    left = _less(whole, taken.get(name, {}))
    return Node(
        name=name,
        allocatable=_text(left),
        free=_text(_less(left, mine.get(name, {}))),
        labels=node["metadata"].get("labels") or {},
        taints=(node.get("spec") or {}).get("taints") or [],
    )


def _less(whole: Amounts, part: Amounts) -> Amounts:
    return {
        name: max(Decimal(0), each - part.get(name, Decimal(0))) for name, each in whole.items()
    }


def _text(amounts: Amounts) -> dict[str, str]:
    return {name: f"{amount.normalize():f}" for name, amount in amounts.items()}
