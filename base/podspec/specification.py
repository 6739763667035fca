"""The `pod_spec` of a user: a pod's `spec`, or a pod (or its template) that has one."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from base.podspec.refusals import REFUSED, refusal, refused_paths, values
from base.podspec.resources import GROUPS, sensible_check
from base.podspec.unseen import UNSEEN, has_unseen

__all__ = ["MAIN", "REFUSED", "main_index", "problem", "refused_paths", "spec_of"]

MAIN = "main"
"""The name of the container that runs the session. If there is none, it is the first container."""

_BOTH = ("containers[]", "initContainers[]")
_IMAGES = (*(f"{kind}.image" for kind in _BOTH), "ephemeralContainers[].image")
_WORDS: Mapping[type, str] = {dict: "an object", list: "a list of objects"}
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
# The shapes of the fields that are read or merged here. The cluster checks all others.
_OUTER: Mapping[str, type] = {
    "spec": dict,
    "metadata": dict,
    "metadata.labels": dict,
    "metadata.annotations": dict,
}
_SHAPES: Mapping[str, type] = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "tolerations"), list),
    **{f"{kind}.{inner}": list for kind in _BOTH for inner in ("env", "ports", "volumeMounts")},
    **dict.fromkeys(("securityContext", "os", "nodeSelector"), dict),
    **{f"{kind}.{inner}": dict for kind in _BOTH for inner in ("resources", "securityContext")},
    **{f"{kind}.resources.{group}": dict for kind in _BOTH for group in ("requests", "limits")},
    **{".".join(_AFFINITY[: depth + 1]): dict for depth in range(3)},
    ".".join((*_AFFINITY, "nodeSelectorTerms")): list,
    ".".join((*_AFFINITY, "nodeSelectorTerms[]", "matchFields")): list,
}


def spec_of(pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `spec` of the pod."""
    inner = pod_spec.get("spec")
    return inner if isinstance(inner, Mapping) else pod_spec


def without_values(pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with null in place of the values of all container variables."""
    copy = deepcopy(dict(pod_spec))
    for path in ("containers[].env[]", "initContainers[].env[]", "ephemeralContainers[].env[]"):
        for _, variable in values(spec_of(copy), path):
            if isinstance(variable, dict) and "value" in variable:
                variable["value"] = None
    return copy


def main_index(containers: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the container that runs the session. The list must not be empty."""
    names = [container.get("name") for container in containers]
    return names.index(MAIN) if MAIN in names else 0


def problem(pod_spec: Mapping[str, Any], refused: Iterable[str] = REFUSED) -> str | None:
    """Return what is wrong with a `pod_spec`, starting with the field's path; None if it is valid.

    Unknown fields are left to the cluster. `refused` are paths as in `REFUSED`.
    """
    spec = spec_of(pod_spec)
    prefix = "" if spec is pod_spec else "spec."
    if place := _misshapen(pod_spec, _OUTER):
        return place
    if place := _misshapen(spec, _SHAPES) or _amiss(spec):
        return prefix + place
    for path in _IMAGES:
        for place, image in values(spec, path):
            if isinstance(image, str) and has_unseen(image):
                return f"{prefix}{place}: {UNSEEN}"
    return refusal(pod_spec, spec, refused)


def _amiss(spec: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the amounts that a container asks for."""
    for kind in _BOTH:
        for place, resources in values(spec, f"{kind}.resources"):
            asked = resources if isinstance(resources, Mapping) else {}
            try:
                sensible_check({group: asked[group] for group in GROUPS if asked.get(group)})
            except ValueError as error:
                return f"{place}: {error}"
    return None


def _misshapen(spec: Mapping[str, Any], shapes: Mapping[str, type]) -> str | None:
    for path, kind in shapes.items():
        if path.partition(".")[0].removesuffix("[]") not in spec:
            continue
        for place, value in values(spec, path):
            if value is not None and not isinstance(value, kind):
                return f"{place}: must be {_WORDS[kind]}"
            if isinstance(value, list) and not all(isinstance(each, Mapping) for each in value):
                return f"{place}: must be a list of objects"
    return None
