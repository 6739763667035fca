"""The nodes of a cluster, and what other pods leave free on them."""

import asyncio
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

from reprise_client.wire import Node

from base.podspec.quantity import parse_resource
from base.podspec.resources import Amounts
from executor.clock import boottime
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Object

log = logging.getLogger(__name__)

_ALIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_PODS = "pods"
_UNWANTED = ("attachable-volumes", _PODS)
_IDLE_FOR = 9.0
"""Pause between two surveys, as a multiple of the time that the last one took."""


class NodeSurvey:
    """A survey of the nodes every `seconds` seconds, or less often if a survey takes long.

    `nodes` may be read by any thread. It has the nodes that accept pods, with their allocatable
    amounts and what all present pods leave free, whoever owns them, and with the number of pods of
    this `executor` that they can hold beside others.
    """

    def __init__(self, cluster: Cluster, seconds: float, executor: str):
        self._cluster = cluster
        self._label = pod_names.label_value(executor)
        self._seconds = seconds
        self._failing = False
        self._looking = asyncio.Lock()
        self._began = -math.inf
        self.nodes: list[Node] = []

    async def keep(self) -> None:
        while True:
            async with self._looking:
                await self._renew()
            took = boottime() - self._began
            await asyncio.sleep(max(self._seconds, _IDLE_FOR * took))

    async def renew(self) -> None:
        """Survey the nodes now, once for all who ask meanwhile."""
        asked = boottime()
        async with self._looking:
            if self._began < asked:
                await self._renew()

    async def _renew(self) -> None:
        self._began = boottime()
        try:
            self.nodes = await self._look()
        except ApiRefusal as refusal:
            if not self._failing:
                log.warning("cannot list the nodes: %s", refusal)
            self._failing = True
        else:
            self._failing = False

    def taints(self) -> set[str]:
        """Return the keys of the taints of all nodes."""
        return {taint.get("key", "") for each in self.nodes for taint in each.get("taints") or ()}

    async def _look(self) -> list[Node]:
        nodes: dict[str, Object] = {}
        async for page in self._cluster.pages("/api/v1/nodes"):
            nodes |= {each["metadata"]["name"]: _trimmed(each) for each in page.items}
        taken: dict[str, Amounts] = defaultdict(Amounts)
        mine: Counter[str] = Counter()
        # It reads page by page: all pods of a large cluster may not fit into the executor's memory.
        async for page in self._cluster.pages("/api/v1/pods", fields=_ALIVE):
            for pod in page.items:
                name = pod["spec"]["nodeName"]
                _sum(taken[name], {**requests_of(pod), _PODS: Decimal(1)})
                mine[name] += self._is_mine(pod)
        return [
            _node(each, taken[name], mine[name])
            for name, each in nodes.items()
            if _takes_pods(each)
        ]

    def _is_mine(self, pod: Object) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return bool(labels.get(pod_names.EXECUTOR) == self._label)


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """Return what the Kubernetes scheduler reserves for a pod.

    It is the larger of two amounts: all containers and sidecars together, or the largest init
    container with the sidecars started before it. Requests of the pod as a whole replace that. The
    overhead is added.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    together: Amounts = {}
    for container in _with_allocated(spec, status, "containers", "containerStatuses"):
        _sum(together, container)
    sidecars: Amounts = {}
    largest: Amounts = {}
    init = _with_allocated(spec, status, "initContainers", "initContainerStatuses")
    for raw, container in zip(spec.get("initContainers") or (), init, strict=True):
        if raw.get("restartPolicy") == "Always":
            _sum(sidecars, container)
            continue
        with_sidecars = dict(sidecars)
        _sum(with_sidecars, container)
        _raise(largest, with_sidecars)
    _sum(together, sidecars)
    _raise(together, largest)
    together |= _requests(spec)
    _sum(together, _amounts(spec.get("overhead") or {}))
    return together


def _with_allocated(
    spec: Mapping[str, Any], status: Mapping[str, Any], containers: str, statuses: str
) -> Iterator[Amounts]:
    """Yield the requests of each container.

    While a container is resized, what it still has counts if that is more.
    """
    known = {each.get("name"): each for each in status.get(statuses) or ()}
    for container in spec.get(containers) or ():
        amounts, status = _requests(container), known.get(container.get("name")) or {}
        _raise(amounts, _amounts(status.get("allocatedResources") or {}))
        _raise(amounts, _requests(status))
        yield amounts


def _requests(container: Mapping[str, Any]) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests") or {})


def _amounts(quantities: Mapping[str, Any]) -> Amounts:
    amounts = {}
    for name, text in quantities.items():
        with suppress(ValueError):
            amounts[name] = parse_resource(str(text))
    return amounts


def _sum(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _raise(most: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        most[name] = max(most.get(name, Decimal(0)), amount)


def _trimmed(node: Object) -> Object:
    """Return the node without its images and volumes, which can be many."""
    status = node.get("status") or {}
    kept = {name: status.get(name) for name in ("allocatable", "conditions")}
    return {"metadata": node["metadata"], "spec": node.get("spec") or {}, "status": kept}


def _takes_pods(node: Object) -> bool:
    conditions: Iterable[Mapping[str, Any]] = node["status"]["conditions"] or ()
    states = {each.get("type"): each.get("status") for each in conditions}
    return states.get("Ready") == "True" and not node["spec"].get("unschedulable")


def _node(node: Object, taken: Amounts, mine: int) -> Node:
    allocatable = _amounts(node["status"]["allocatable"] or {})
    whole = {name: amount for name, amount in allocatable.items() if not name.startswith(_UNWANTED)}
    present = taken.get(_PODS, Decimal(0))
    if _PODS in allocatable and present >= allocatable[_PODS]:
        taken = whole  # No pod can get what is left there.
    found = Node(
        name=node["metadata"]["name"],
        allocatable=_text(whole),
        free=_text(_less(whole, taken)),
        labels=node["metadata"].get("labels") or {},
        taints=node["spec"].get("taints") or [],
    )
    if _PODS in allocatable:
        found["max_pods"] = max(int(allocatable[_PODS] - present), 0) + mine
    return found


def _less(whole: Amounts, part: Amounts) -> Amounts:
    return {
        name: max(Decimal(0), each - part.get(name, Decimal(0))) for name, each in whole.items()
    }


def _text(amounts: Amounts) -> dict[str, str]:
    return {name: f"{amount.normalize():f}" for name, amount in amounts.items()}
