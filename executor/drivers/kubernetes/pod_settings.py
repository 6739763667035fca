"""What the keeper of pods is told at its start."""

from collections.abc import Sequence
from dataclasses import dataclass

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.api import Access


@dataclass(frozen=True)
class PodSettings:
    """Times in seconds; `refused` are paths of a pod's specification as `podspec` has them.
    `unconfirmed_after`: how long a deleted pod is waited for beyond its grace, 0 for ever."""

    executor: str
    access: Access
    namespaces: str = pod_names.NAMESPACE_TEMPLATE
    refused: Sequence[str] = ()
    create_namespaces: bool = False
    unconfirmed_after: float = 600.0
    relist_seconds: float = 60.0
    watch_seconds: float = 240.0
    answer_seconds: float = 30.0
    nodes_seconds: float = 15.0
