"""Plays the scheduler of a cluster that has none: binds pods to nodes, or says why it cannot."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError

from base.podspec.quantity import parse_resource
from tests.kubernetes.agent import path_of
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.kubelet import PATCH, now
from tests.waiting import PATIENCE_SECONDS

Object = dict[str, Any]
Amounts = dict[str, Decimal]

PAUSE_SECONDS = 0.2
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
UNWANTED = "node(s) didn't match Pod's node affinity/selector"
VOLUME = "node(s) had volume node affinity conflict"
NO_ROOM = ("Insufficient ", "Too many pods")
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_HELP = "Preemption is not helpful for scheduling"


@dataclass
class _Node:
    name: str
    labels: Mapping[str, str]
    taints: list[Object]
    free: Amounts

    def take(self, amounts: Amounts) -> None:
        self.free = {name: each - amounts.get(name, 0) for name, each in self.free.items()}

    def refusals(self, pod: Object, volumes: list[Object]) -> list[str]:
        """Return why the pod cannot be here: the reasons of the first check that it does not
        pass, in the kube-scheduler's order and words; none if it can."""
        spec = pod["spec"]
        for taint in self.taints:
            if not any(_tolerates(each, taint) for each in spec.get("tolerations") or ()):
                return [f"node(s) had untolerated taint {{{taint['key']}: {_value(taint)}}}"]
        if not self._is_wanted(spec):
            return [UNWANTED]
        if short := self._shortages(pod):
            return short
        return [] if all(self._matches(terms) for terms in _places(volumes)) else [VOLUME]

    def _is_wanted(self, spec: Object) -> bool:
        if not (spec.get("nodeSelector") or {}).items() <= self.labels.items():
            return False
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        return REQUIRED not in affinity or self._matches(affinity[REQUIRED]["nodeSelectorTerms"])

    def _matches(self, terms: list[Object]) -> bool:
        fields = {"metadata.name": self.name}
        for term in terms:
            asked = [(self.labels, each) for each in term.get("matchExpressions") or ()]
            asked += [(fields, each) for each in term.get("matchFields") or ()]
            # A term that asks for nothing matches nothing.
            if asked and all(_holds(facts, each) for facts, each in asked):
                return True
        return False

    def _shortages(self, pod: Object) -> list[str]:
        asked = _requests(pod)
        short = [name for name in sorted(asked) if 0 < asked[name] > self.free.get(name, 0)]
        return ["Too many pods" if each == "pods" else f"Insufficient {each}" for each in short]


class Scheduler:
    """One thread looks at all pods without a node again and again, the oldest first.

    It heeds node names, labels and taints, required node affinity, requests, numbers of pods, and
    where the volumes of claims are. Make it before the pods, and `start` it when they may be bound.
    """

    def __init__(self, api: ApiServer):
        self._api = api
        self._stopping = Event()
        self._thread = Thread(target=self._play, name="scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_SECONDS)

    def _play(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            pods = [pod for pod in self._api.pods() if pod["status"]["phase"] == "Pending"]
            waiting = [pod for pod in pods if _waits(pod)]
            if waiting:
                nodes = self._nodes()
                for pod in sorted(waiting, key=lambda each: each["metadata"]["creationTimestamp"]):
                    self._place(pod, nodes)

    def _nodes(self) -> list[_Node]:
        nodes = {}
        for node in self._api.call("GET", "/api/v1/nodes")["items"]:
            name, spec, status = node["metadata"]["name"], node["spec"], node["status"]
            free = _amounts(status.get("allocatable") or {})
            labels = node["metadata"].get("labels") or {}
            nodes[name] = _Node(name, labels, spec.get("taints") or [], free)
        for pod in self._api.pods():
            if pod["spec"].get("nodeName") in nodes and not _is_over(pod):
                nodes[pod["spec"]["nodeName"]].take(_requests(pod))
        return list(nodes.values())

    def _place(self, pod: Object, nodes: list[_Node]) -> None:
        volumes = list(self._volumes(pod))
        refusals = {node.name: node.refusals(pod, volumes) for node in nodes}
        found = next((node for node in nodes if not refusals[node.name]), None)
        try:
            if found is None:
                self._refuse(pod, _words(list(refusals.values())))
            else:
                self._bind(pod, found)
        except HTTPError as error:
            if error.code not in {404, 409}:
                raise
            # It has changed meanwhile, or has gone.

    def _volumes(self, pod: Object) -> Iterator[Object]:
        """Yield the volumes to which the pod's claims are bound."""
        claims = f"/api/v1/namespaces/{pod['metadata']['namespace']}/persistentvolumeclaims"
        for each in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" in each:
                name = each["persistentVolumeClaim"]["claimName"]
                claim = self._api.call("GET", f"{claims}/{name}")
                volume = claim["spec"]["volumeName"]
                yield self._api.call("GET", f"/api/v1/persistentvolumes/{volume}")

    def _bind(self, pod: Object, node: _Node) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node.name}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        self._api.call("POST", f"{path_of(pod)}/binding", body)
        node.take(_requests(pod))

    def _refuse(self, pod: Object, message: str) -> None:
        known = pod["status"].get("conditions") or ()
        if message in (each.get("message") for each in known):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": now(),
        }
        status = {"status": {"conditions": [condition]}}
        self._api.call("PATCH", f"{path_of(pod)}/status", status, kind=PATCH)


def _words(refusals: list[list[str]]) -> str:
    """Return what a kube-scheduler says of a pod, given why each node cannot take it."""
    preempting = [NO_VICTIMS if why[0].startswith(NO_ROOM) else NO_HELP for why in refusals]
    none = f"0/{len(refusals)} nodes are available"
    why = (each for reasons in refusals for each in reasons)
    return f"{none}: {_listed(why)}. preemption: {none}: {_listed(preempting)}."


def _listed(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))


def _waits(pod: Object) -> bool:
    return "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]


def _is_over(pod: Object) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def _requests(pod: Object) -> Amounts:
    total: Amounts = defaultdict(Decimal, pods=Decimal(1))
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        for name, amount in _amounts(requests).items():
            total[name] += amount
    return total


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    return {name: parse_resource(text) for name, text in quantities.items()}


def _places(volumes: list[Object]) -> Iterator[list[Object]]:
    """Yield the terms of each volume, one of which a node must match to reach it."""
    for volume in volumes:
        if affinity := volume["spec"].get("nodeAffinity"):
            yield affinity["required"]["nodeSelectorTerms"]


def _holds(facts: Mapping[str, str], requirement: Object) -> bool:
    have, values = facts.get(requirement["key"]), requirement.get("values") or ()
    return {
        "In": have in values,
        "NotIn": have not in values,
        "Exists": have is not None,
        "DoesNotExist": have is None,
    }[requirement["operator"]]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if taint["effect"] == "PreferNoSchedule":
        return True
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return (toleration.get("key"), _value(toleration)) == (taint["key"], _value(taint))


def _value(keyed: Object) -> str:
    return str(keyed.get("value") or "")
