"""What the keeper of pods knows of one run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reprise_client.wire import LeaseKey

from executor.drivers import pod_names
from executor.drivers.pod_manifest import Manifest
from executor.drivers.pod_story import SessionStory
from executor.drivers.pod_trim import Pod, trimmed
from executor.drivers.protocol import Observation
from executor.runs import RunFiles
from podspec.specification import main_index

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Known:
    """A pod as it was seen last: trimmed, with the name of the container that runs the session."""

    pod: Pod
    main: str
    held: bool
    """Our finalizer is on it."""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> "Known":
        containers = (pod.get("spec") or {}).get("containers") or [{}]
        main = str(containers[main_index(containers)].get("name", ""))
        finalizers = (pod.get("metadata") or {}).get("finalizers") or ()
        return cls(trimmed(pod), main, pod_names.FINALIZER in finalizers)

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"].get("uid", ""))

    @property
    def over(self) -> bool:
        return self.pod["status"].get("phase") in _OVER

    @property
    def started(self) -> bool:
        """Its container has run, so that there may be a log."""
        return self.over or self.pod["status"].get("phase") == "Running"

    @property
    def deleted(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def running(self) -> bool:
        statuses = self.pod["status"]["containerStatuses"]
        return any("running" in each["state"] for each in statuses)

    @property
    def only_held(self) -> bool:
        """It was deleted for good and never comes to an end of its own: it had no node, or its
        node is done with it."""
        return self.deleted and not self.pod["metadata"].get("deletionGracePeriodSeconds", 1)


@dataclass
class PodRun:
    """`created`: all its pods are, as far as this agent is concerned. `grace`: seconds that a stop
    gives its pods, None while none is asked for. `asked_at`: when their deletion was first asked
    for (boot time). `end` is told once the log is complete."""

    key: LeaseKey
    files: RunFiles
    namespace: str
    names: Sequence[str]
    story: SessionStory
    created: bool = False
    grace: int | None = None
    asked_at: float | None = None
    end: Observation | None = None
    released: bool = False
    known: dict[str, Known] = field(default_factory=dict)
    held_back: list[Observation] = field(default_factory=list)
    deleting: set[str] = field(default_factory=set)
    log: asyncio.Task[None] | None = None
    next_change: asyncio.Future[None] = field(init=False)
    """Done when anything else is known of the pods."""

    def __post_init__(self) -> None:
        self.next_change = asyncio.get_running_loop().create_future()

    def touch(self) -> None:
        """Wakes those who wait for a change."""
        self.next_change.set_result(None)
        self.next_change = asyncio.get_running_loop().create_future()

    @property
    def stopping(self) -> bool:
        return self.grace is not None

    def lacks(self, name: str) -> bool:
        """Whether this pod was not seen yet, and there is a use for it."""
        return self.end is None and not self.released and name not in self.known

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"


@dataclass(frozen=True)
class Place:
    """Where the pods of a lease are, and what they are called, by rank."""

    namespace: str
    names: Sequence[str]

    @classmethod
    def of_manifests(cls, bodies: Sequence[Manifest]) -> "Place":
        first = bodies[0]["metadata"]["namespace"]
        return cls(first, [body["metadata"]["name"] for body in bodies])

    @classmethod
    def of_pod(cls, pod: Mapping[str, Any]) -> "Place | None":
        """Of all pods of the lease that this one is of."""
        metadata = pod["metadata"]
        labels = metadata["labels"]
        try:
            root, attempt = labels[pod_names.ROOT], int(labels[pod_names.ATTEMPT])
        except (KeyError, ValueError):
            return None
        ranks = range(_cluster_size(pod))
        return cls(
            metadata["namespace"], [pod_names.pod_name(root, rank, attempt) for rank in ranks]
        )


def path_of_pod(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def key_of_pod(pod: Mapping[str, Any]) -> LeaseKey | None:
    """The lease that a pod was made for, if it is one of ours."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    try:
        return LeaseKey(labels[pod_names.SESSION], int(labels[pod_names.TOKEN]))
    except (KeyError, ValueError):
        return None


def _cluster_size(pod: Mapping[str, Any]) -> int:
    containers = (pod.get("spec") or {}).get("containers") or ()
    said = (
        variable.get("value", "")
        for container in containers
        for variable in container.get("env") or ()
        if variable.get("name") == "REPRISE_CLUSTER_SIZE"
    )
    found = next(said, "1")
    return int(found) if found.isdigit() else 1
