"""The settings that the keeper of pods gets at its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from base.podspec.extended import AUTO
from base.podspec.pod_security import RESTRICTED
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.access import Access
from executor.drivers.protocol import PLACEMENT_SECONDS


@dataclass(frozen=True)
class PodSettings:
    """Times in seconds; `refused` are paths of a pod's specification as `podspec` has them.
    `unconfirmed_after`: how long a deleted pod is waited for beyond its grace, 0 for ever.
    `placement_seconds`: how long a planned node is refused before the run is handed back.
    `security`: one of `base.podspec.pod_security.LEVELS`.
    `defaults`: what pods get where sessions say nothing, as `podspec.pod_defaults` has it.
    `extended_tolerations`: one of `base.podspec.extended.MODES`.
    `priority_classes`: names of PriorityClasses, by priority class of sessions."""

    executor: str
    access: Access
    namespaces: str = pod_names.NAMESPACE_TEMPLATE
    refused: Sequence[str] = ()
    security: str = RESTRICTED
    defaults: Mapping[str, Any] = field(default_factory=dict)
    extended_tolerations: str = AUTO
    create_namespaces: bool = False
    unconfirmed_after: float = 600.0
    placement_seconds: float = PLACEMENT_SECONDS
    relist_seconds: float = 60.0
    watch_seconds: float = 240.0
    answer_seconds: float = 30.0
    nodes_seconds: float = 15.0
    priority_classes: Mapping[str, str] = field(default_factory=dict)
