"""A `pod_spec` as users write it: a pod's `spec`, or a pod (or its template) that has one."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

MAIN = "main"
"""The container that runs the session, by name; without one of this name it is the first."""

_BOTH = ("containers[]", "initContainers[]")
_ANYWHERE = ("", *(f"{kind}." for kind in _BOTH))

REFUSED: tuple[str, ...] = (
    "volumes[].hostPath",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "nodeName",
    "ephemeralContainers",
    *(f"{kind}.ports[].hostPort" for kind in _BOTH),
    *(f"{kind}.securityContext.privileged" for kind in _BOTH),
    *(f"{kind}.securityContext.capabilities.add" for kind in _BOTH),
    *(f"{kind}.securityContext.procMount=Unmasked" for kind in _BOTH),
    "securityContext.sysctls",
    *(f"{kind}securityContext.windowsOptions.hostProcess" for kind in _ANYWHERE),
    *(f"{kind}securityContext.seccompProfile.type=Unconfined" for kind in _ANYWHERE),
    *(f"{kind}securityContext.appArmorProfile.type=Unconfined" for kind in _ANYWHERE),
)
"""What nobody may ask for unless an operator says otherwise: whatever reaches beyond the pod into
its node, or past the cluster's scheduler.

Each is a path of fields; `[]` goes into every item of a list, and `=value` means this value only.
A field that is absent, null, false, 0 or empty asks for nothing.
"""

_WORDS: Mapping[type, str] = {dict: "an object", list: "a list of objects"}
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
# Read here or laid over; what is wrong elsewhere, the cluster says.
_OUTER: Mapping[str, type] = {
    "spec": dict,
    "metadata": dict,
    "metadata.labels": dict,
    "metadata.annotations": dict,
}
_SHAPES: Mapping[str, type] = {
    **dict.fromkeys(("containers", "initContainers", "volumes"), list),
    **{f"{kind}.{inner}": list for kind in _BOTH for inner in ("env", "ports", "volumeMounts")},
    **{f"{kind}.resources": dict for kind in _BOTH},
    **{f"{kind}.resources.{group}": dict for kind in _BOTH for group in ("requests", "limits")},
    **{".".join(_AFFINITY[: depth + 1]): dict for depth in range(3)},
    ".".join((*_AFFINITY, "nodeSelectorTerms")): list,
    ".".join((*_AFFINITY, "nodeSelectorTerms[]", "matchFields")): list,
}


def spec_of(pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod's `spec` itself."""
    inner = pod_spec.get("spec")
    return inner if isinstance(inner, Mapping) else pod_spec


def main_index(containers: Sequence[Mapping[str, Any]]) -> int:
    """Which of the containers runs the session; there has to be one."""
    names = [container.get("name") for container in containers]
    return names.index(MAIN) if MAIN in names else 0


def refused_paths(allowed: Collection[str] = (), added: Iterable[str] = ()) -> tuple[str, ...]:
    """`REFUSED` without what an operator allows, and with what else is refused.

    Raises `ValueError` for what is allowed although nothing refuses it: it may be misspelt.
    """
    if unknown := sorted(set(allowed) - set(REFUSED)):
        raise ValueError(f"not refused anyway: {', '.join(unknown)}")
    return (*(path for path in REFUSED if path not in allowed), *added)


def problem(pod_spec: Mapping[str, Any], refused: Iterable[str] = REFUSED) -> str | None:
    """What is wrong with a `pod_spec`, beginning with the path of the field; None if nothing is.

    Unknown fields are the cluster's to judge. `refused` are paths as in `REFUSED`.
    """
    spec = spec_of(pod_spec)
    prefix = "" if spec is pod_spec else "spec."
    if place := _misshapen(pod_spec, _OUTER):
        return place
    if place := _misshapen(spec, _SHAPES) or _refusal(spec, refused):
        return prefix + place
    return None


def _misshapen(spec: Mapping[str, Any], shapes: Mapping[str, type]) -> str | None:
    for path, kind in shapes.items():
        for place, value in _values(spec, path):
            if value is not None and not isinstance(value, kind):
                return f"{place}: must be {_WORDS[kind]}"
            if isinstance(value, list) and not all(isinstance(each, Mapping) for each in value):
                return f"{place}: must be a list of objects"
    return None


def _refusal(spec: Mapping[str, Any], refused: Iterable[str]) -> str | None:
    for rule in refused:
        path, _, only = rule.partition("=")
        for place, value in _values(spec, path):
            if (only in (value, json.dumps(value))) if only else value:
                return f"{place}: is refused here"
    return None


def _values(value: object, path: str, place: str = "") -> Iterator[tuple[str, object]]:
    """Every value at the path, with where it is; what is of another shape has none."""
    step, _, rest = path.partition(".")
    name = step.removesuffix("[]")
    if not isinstance(value, Mapping) or name not in value:
        return
    inner, here = value[name], f"{place}.{name}" if place else name
    found: Iterable[tuple[str, object]] = [(here, inner)]
    if step.endswith("[]"):
        items = inner if isinstance(inner, list) else []
        found = [(f"{here}[{number}]", item) for number, item in enumerate(items)]
    for where, each in found:
        if rest:
            yield from _values(each, rest, where)
        else:
            yield where, each
