"""Pod defaults: what the pods of sessions get where the session itself says nothing. Pure.

An executor has some, and a project may add to them. They have the form of a `pod_spec`, with a few
fields only: none of them says what runs, or what a container sees.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from base.podspec.refusals import REFUSED
from base.podspec.specification import problem, spec_of

Object = Mapping[str, Any]
Merge = Callable[[Any, Any], Any]
"""Returns the session's own value of a field with a default below it."""

_OF_POD = frozenset({"apiVersion", "kind", "metadata", "spec"})
PLACING = ("nodeSelector", "affinity", "tolerations")
"""The fields that decide on which nodes a pod may run."""
LONGEST = 64 * 1024
"""Most bytes of pod defaults, as JSON."""
_VOLUMES = "volumes[]."


def default_problem(defaults: object, refused: Iterable[str] = REFUSED) -> str | None:
    """Return what is wrong with pod defaults, starting with the field's path; None if they are
    valid.

    `refused` are paths as in `podspec.REFUSED`.
    """
    if not isinstance(defaults, Mapping):
        return "must be an object, such as a pod's specification"
    spec = spec_of(defaults)
    prefix = "" if spec is defaults else "spec."
    if wrong := _unknown(defaults, spec, prefix) or problem(defaults, refused):
        return wrong
    metadata = defaults.get("metadata") or {}
    for place, texts in [
        *((f"metadata.{name}", metadata.get(name)) for name in sorted(_OF_METADATA)),
        (f"{prefix}nodeSelector", spec.get("nodeSelector")),
    ]:
        for key, text in (texts or {}).items():
            if not isinstance(text, str):
                return f"{place}.{key}: must be text; in YAML, put it in quotes"
    if len(json.dumps(defaults, default=str)) > LONGEST:
        return f"must have at most {LONGEST} bytes as JSON"
    wrong = _misread(spec)
    return prefix + wrong if wrong else None


def own_refused(refused: Iterable[str]) -> list[str]:
    """Return the paths that are refused in the defaults of an executor.

    Its administrator offers volumes by their names: that gives sessions these volumes alone, where
    allowing the field would give them any.
    """
    return [path for path in refused if not path.startswith(_VOLUMES)]


def completed(pod_spec: Object, *defaults: Object) -> dict[str, Any]:
    """Return the pod of a `pod_spec` with pod defaults below it; the first ones win.

    What is under one name is replaced as a whole: a label, a selector's label, a volume, a field of
    the security context, a part of an affinity. Tolerations add up.
    """
    metadata, spec = dict(pod_spec.get("metadata") or {}), dict(spec_of(pod_spec))
    spec.pop("metadata", None)
    for each in defaults:
        _complete(spec, spec_of(each), _MERGED)
        _complete(metadata, each.get("metadata") or {}, _MERGED_METADATA)
    return {"metadata": metadata, "spec": spec}


def _complete(own: dict[str, Any], below: Object, merged: Mapping[str, Merge]) -> None:
    for name, merge in merged.items():
        if below.get(name):
            own[name] = merge(own.get(name), below[name])


def placing_of(pod_spec: object) -> dict[str, Any]:
    """Return the fields of a `pod_spec` or of pod defaults that decide on nodes; {} for none."""
    spec = spec_of(pod_spec) if isinstance(pod_spec, Mapping) else {}
    found = {name: spec[name] for name in PLACING if spec.get(name)}
    affinity = found.pop("affinity", None)
    # The server plans by the affinity to nodes alone.
    if _is_object(affinity) and affinity.get("nodeAffinity"):
        found["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    return found


def _unknown(defaults: Object, spec: Object, prefix: str) -> str | None:
    """Return which field is none of pod defaults."""
    known = _FIELDS if prefix else _FIELDS | {"metadata"}
    names = [f"{prefix}{name}" for name in spec if name not in known]
    # Pods, as they are copied from elsewhere, name their kind.
    names += [name for name in defaults if prefix and name not in _OF_POD]
    metadata = defaults.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    names += [f"metadata.{name}" for name in inner if name not in _OF_METADATA]
    if not names:
        return None
    fields = ", ".join([*sorted(_FIELDS), *(f"metadata.{name}" for name in sorted(_OF_METADATA))])
    return f"{min(names)}: is no field of pod defaults, which are {fields}"


def _misread(spec: Object) -> str | None:
    """Return what is wrong with the fields whose form `problem` leaves to the cluster."""
    if not isinstance(spec.get("runtimeClassName") or "", str):
        return "runtimeClassName: must be the name of a runtime class"
    for number, each in enumerate(spec.get("imagePullSecrets") or ()):
        if not _is_object(each) or not isinstance(each.get("name"), str):
            return f"imagePullSecrets[{number}]: must be an object with the name of a secret"
    for number, each in enumerate(spec.get("volumes") or ()):
        if not isinstance(each.get("name"), str):
            return f"volumes[{number}].name: must be given"
    affinity = spec.get("affinity") or {}
    if not _is_object(affinity):
        return "affinity: must be an object"
    for kind, parts in affinity.items():
        if parts is not None and not _is_object(parts):
            return f"affinity.{kind}: must be an object"
    return None


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _over(own: object, below: object, *, depth: int = 1) -> Any:
    """Return two objects as one, down to a depth; `own` wins."""
    if own is None:
        return below
    if depth == 0 or not isinstance(below, Mapping) or not isinstance(own, Mapping):
        return own
    inner = {name: _over(each, below.get(name), depth=depth - 1) for name, each in own.items()}
    return {**below, **inner}


def _listed(own: Any, below: Any, *, keys: tuple[str, ...] = ("name",)) -> list[Any]:
    """Return two lists as one, without what the first one has under the same keys."""
    taken = [_key(each, keys) for each in own or ()]
    return [*(own or ()), *(each for each in below if _key(each, keys) not in taken)]


def _key(item: Object, keys: tuple[str, ...]) -> list[Any]:
    return [item.get(key) or "" for key in keys]


_MERGED: Mapping[str, Merge] = {
    "nodeSelector": _over,
    "securityContext": _over,
    "affinity": partial(_over, depth=2),
    "tolerations": partial(_listed, keys=("key", "effect")),
    "imagePullSecrets": _listed,
    "volumes": _listed,
    "runtimeClassName": lambda own, below: own or below,
}
_FIELDS = frozenset(_MERGED)
_MERGED_METADATA: Mapping[str, Merge] = {"annotations": _over, "labels": _over}
_OF_METADATA = frozenset(_MERGED_METADATA)
