"""The state of one run and of its pods."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reprise_client.wire import LeaseKey

from base.podspec.specification import main_index
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_places import Place, is_size
from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.drivers.kubernetes.pod_trim import Pod, trimmed
from executor.drivers.kubernetes.pod_words import first_failed
from executor.drivers.protocol import Observation
from executor.runs import RunFiles

_UNSCHEDULABLE = "Unschedulable"
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Known:
    """A pod as it was last seen: trimmed, with the name of the container that runs the session."""

    pod: Pod
    main: str
    held: bool
    """Our finalizer is on the pod."""
    awaits_secret: bool
    """The annotation says that its Secret is still awaited."""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> "Known":
        containers = (pod.get("spec") or {}).get("containers") or [{}]
        main = str(containers[main_index(containers)].get("name", ""))
        finalizers = (pod.get("metadata") or {}).get("finalizers") or ()
        held = pod_names.FINALIZER in finalizers
        return cls(trimmed(pod), main, held, pod_names.awaits_secret(pod))

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"].get("uid", ""))

    @property
    def version(self) -> str:
        return str(self.pod["metadata"].get("resourceVersion", ""))

    @property
    def unschedulable(self) -> str:
        """Return why the cluster's scheduler finds no node for it, in its words; "" if it does."""
        for each in self.pod["status"]["conditions"]:
            if each.get("type") == "PodScheduled" and each.get("reason") == _UNSCHEDULABLE:
                return str(each.get("message") or _UNSCHEDULABLE)
        return ""

    @property
    def over(self) -> bool:
        return self.pod["status"].get("phase") in _OVER

    @property
    def started(self) -> bool:
        """Return whether a container of the pod has started, so that there may be a log."""
        return self.over or self.pod["status"].get("phase") == "Running"

    @property
    def deleted(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def ran(self) -> bool:
        """Return whether the session's container was seen to run, so that there should be a log."""
        statuses = self.pod["status"]["containerStatuses"]
        mine = (each["state"] for each in statuses if each.get("name") == self.main)
        return any("running" in state or "terminated" in state for state in mine)

    @property
    def only_held(self) -> bool:
        """Return whether the pod was deleted with no grace left.

        Its node is done with it, or somebody forced the deletion.
        """
        return self.deleted and not self.grace

    def hurried_since(self, before: "Known | None") -> bool:
        """Return whether the pod was deleted, or given less time to stop, since `before`."""
        known = before is not None and before.deleted and before.grace <= self.grace
        return self.deleted and not self.over and not known

    @property
    def bound(self) -> bool:
        """Return whether the pod has a node. The node then reports its end if it is alive."""
        return "nodeName" in self.pod["spec"]

    @property
    def grace(self) -> int:
        """Return the seconds that the pod's deletion gave it to stop."""
        return int(self.pod["metadata"].get("deletionGracePeriodSeconds", 1))


class Refusal(NamedTuple):
    """A pod whose planned node the cluster refuses, with the cluster's words."""

    pod: str
    node: str
    words: str


@dataclass
class PodRun:
    """The state of one run.

    `created`: all its pods were created, or an earlier agent created them. `grace`: the seconds
    that a stop gives the pods, None if no stop was asked for. `asked_at`: when the deletion of each
    pod was first known to be asked for (boot time), by anybody. `end` is told once the log is
    complete; `verdict` is told in its place. `reclaimed`: an earlier agent created the pods.
    """

    key: LeaseKey
    files: RunFiles
    place: Place
    tracker: SessionTracker
    refused_since: dict[str, float] = field(default_factory=dict)
    """Since when the cluster has said that its planned node cannot take a pod (boot time)."""
    created: bool = False
    reclaimed: bool = False
    grace: int | None = None
    asked_at: dict[str, float] = field(default_factory=dict)
    end: Observation | None = None
    verdict: Observation | None = None
    released: bool = False
    known: dict[str, Known] = field(default_factory=dict)
    held_back: list[Observation] = field(default_factory=list)
    deleting: set[str] = field(default_factory=set)
    log: asyncio.Task[None] | None = None
    failed_output: bytes | None = None
    """The last output of what failed first, if that is read by itself."""
    in_line: bool = False
    """The run waits for its turn to have its log fetched."""
    waits_for: str = ""
    """The reason, as last reported, why its pods are not created yet."""
    next_change: asyncio.Future[None] = field(init=False)
    """A future that is done as soon as something new is known of the pods."""

    def __post_init__(self) -> None:
        self.next_change = asyncio.get_running_loop().create_future()

    @property
    def namespace(self) -> str:
        return self.place.namespace

    @property
    def names(self) -> Sequence[str]:
        return self.place.pods

    @property
    def planned(self) -> Sequence[str]:
        """Return the nodes that the pods are bound to, by rank; empty if the cluster chooses."""
        return self.place.nodes

    def touch(self) -> None:
        """Wake all who wait for a change."""
        self.next_change.set_result(None)
        self.next_change = asyncio.get_running_loop().create_future()

    @property
    def refusals(self) -> list[Refusal]:
        """Return the pods whose planned nodes the cluster refuses, by rank.

        The plan stands once a container has started, or a pod or the run is about to end.
        """
        pods = [self.known[name] for name in self.names if name in self.known]
        if not self.planned or self.stopping or self.end is not None:
            return []
        if len(pods) < len(self.names) or self.tracker.began:
            return []
        if any(known.deleted or known.started for known in pods):
            return []
        each_rank = zip(self.names, self.planned, pods, strict=True)
        waiting = (each for each in each_rank if not each[2].bound and each[2].unschedulable)
        return [Refusal(name, node, known.unschedulable) for name, node, known in waiting]

    def overdue(self, name: str, now: float) -> float:
        """Return the seconds by which a pod has outlasted its deletion and grace period.

        The result is at most 0 for other pods.
        """
        known = self.known.get(name)
        given = known.grace if known is not None and known.deleted else self.grace
        return now - self.asked_at.get(name, now) - (given or 0)

    @property
    def failed_aside(self) -> tuple[str, str] | None:
        """Return the pod and the container that failed first, if the end of the run's output is not
        theirs; else None.

        The output is that of the session's containers, one rank after the other.
        """
        end = self.end
        if end is None or end.status != "ERROR" or end.stopped or end.termination is None:
            return None
        name = self.names[end.termination.get("rank", 0)]
        known, failed = self.known.get(name), first_failed(end.termination.get("pod"))
        if known is None or failed is None:
            return None
        container = failed[2]
        aside = len(self.names) > 1 or container != known.main
        return (name, container) if aside else None

    @property
    def misses_pods(self) -> bool:
        """Return whether pods that were made are missing."""
        return self.created and not self.tracker.ended and len(self.known) < len(self.names)

    @property
    def stopping(self) -> bool:
        return self.grace is not None

    def lacks(self, name: str) -> bool:
        """Return whether this pod was not seen yet and is still needed."""
        return self.end is None and not self.released and name not in self.known

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"


def path_of_pod(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def key_of_pod(pod: Mapping[str, Any]) -> LeaseKey | None:
    """Return the lease that a pod was made for; None if the pod is not ours."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    try:
        return LeaseKey(labels[pod_names.SESSION], int(labels[pod_names.TOKEN]))
    except (KeyError, ValueError):
        return None


def may_go_on(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod that no agent knows may still have something to report.

    A pod that was deleted and has no finalizer of ours was released before: its node is gone and
    cannot report that it stopped.
    """
    metadata = pod["metadata"]
    return "deletionTimestamp" not in metadata or pod_names.FINALIZER in (
        metadata.get("finalizers") or ()
    )


def noted(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a pod that are read here, at their usual paths: a tenth of the whole."""
    # Keep the parts that `trimmed` removes and this module needs.
    kept, spec = dict(trimmed(pod)), pod.get("spec") or {}
    kept["metadata"]["finalizers"] = (pod.get("metadata") or {}).get("finalizers") or []
    kept["spec"]["containers"] = [
        {"name": each.get("name", ""), "env": [v for v in each.get("env") or () if is_size(v)]}
        for each in spec.get("containers") or ()
    ]
    if pod_names.awaits_secret(pod):
        kept["metadata"]["annotations"] = {pod_names.AWAITS_SECRET: "true"}
    return kept
