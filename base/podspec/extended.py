"""Extended resources: those that Kubernetes itself does not know, such as GPUs. Pure."""

from collections.abc import Iterable
from typing import Any

AUTO, ON, OFF = "auto", "on", "off"
MODES = (AUTO, ON, OFF)
"""Whether it is assumed that a cluster adds tolerations for them: auto: a dry run shows it."""
_NATIVE = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Return whether a name is that of an extended resource, as Kubernetes decides it."""
    return "/" in name and _NATIVE not in name and not name.startswith("requests.")


def tolerations_for(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the tolerations that Kubernetes' `ExtendedResourceToleration` adds to a pod that asks
    for these resources."""
    return [
        {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        for name in sorted(names)
        if is_extended(name)
    ]
