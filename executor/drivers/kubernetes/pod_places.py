"""The place of a run in its cluster, as the run's files and the labels of its pods tell it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_manifest import Manifest
from executor.runs import RunFiles

_SIZE = "REPRISE_CLUSTER_SIZE"
_MADE = "made"
"""The name of an empty file: it costs less than another record."""


@dataclass(frozen=True)
class Place:
    """The namespace of a lease's pods, and their names and planned nodes by rank.

    `made`: all of these pods have existed, and one has started. Otherwise the agent that was to
    create them may have died before.
    """

    namespace: str
    pods: Sequence[str]
    nodes: Sequence[str] = ()
    made: bool = False

    @classmethod
    def of_manifests(cls, bodies: Sequence[Manifest], nodes: Sequence[str] = ()) -> "Place":
        """Return the place of these pods. Nodes count if there is one for each pod."""
        first = bodies[0]["metadata"]["namespace"]
        names = [body["metadata"]["name"] for body in bodies]
        return cls(first, names, nodes if len(nodes) == len(names) else ())

    @classmethod
    def of_pod(cls, pod: Mapping[str, Any]) -> "Place | None":
        """Return the place of the lease that this pod belongs to; None if its labels do not
        tell."""
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

    @classmethod
    def read(cls, files: RunFiles) -> "Place | None":
        """Return the place that the run's files tell; None if they tell none."""
        record = files.read_process()
        return cls(**record, made=(files.path / _MADE).exists()) if record else None

    def write(self, files: RunFiles) -> None:
        files.write_record({"namespace": self.namespace, "pods": self.pods, "nodes": self.nodes})

    @staticmethod
    def note_made(files: RunFiles) -> None:
        """Record that all pods exist. Without this note the next agent looks for them."""
        with suppress(OSError):  # a full disk must not end what still works
            (files.path / _MADE).touch(mode=0o600)


def is_size(variable: Mapping[str, Any]) -> bool:
    """Return whether this variable of a container has the number of ranks."""
    return variable.get("name") == _SIZE


def _cluster_size(pod: Mapping[str, Any]) -> int:
    containers = (pod.get("spec") or {}).get("containers") or ()
    sizes = (
        variable.get("value", "")
        for container in containers
        for variable in container.get("env") or ()
        if is_size(variable)
    )
    found = next(sizes, "1")
    return int(found) if found.isdigit() else 1
