"""The fields of a pod that no session may use unless an operator allows them."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

_BOTH = ("containers[]", "initContainers[]")
_ANYWHERE = ("", *(f"{kind}." for kind in _BOTH))
_HANDLERS = (
    *("livenessProbe", "readinessProbe", "startupProbe"),
    *("lifecycle.postStart", "lifecycle.preStop"),
)
_STORAGE = (
    # Each names its storage itself, and the node mounts it with more rights than the pod has.
    *("nfs", "csi", "gitRepo", "iscsi", "fc", "rbd", "cephfs", "glusterfs", "flexVolume"),
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk"),
    *("flocker", "photonPersistentDisk", "portworxVolume", "quobyte", "scaleIO", "storageos"),
    "vsphereVolume",
)
_ANNOTATIONS = (
    # Profiles, from before there were fields for them.
    *("container.apparmor.security.beta.kubernetes.io/*", "seccomp.security.alpha.kubernetes.io/*"),
    "container.seccomp.security.alpha.kubernetes.io/*",
    # Commands to network plugins: other networks, addresses, routes, rates.
    *("k8s.v1.cni.cncf.io/*", "v1.multus-cni.io/*", "cni.projectcalico.org/*", "*cilium.io/*"),
    *("io.cilium.*", "ovn.kubernetes.io/*", "k8s.ovn.org/*", "vpc.amazonaws.com/*"),
    *("traffic.sidecar.istio.io/*", "config.linkerd.io/skip-*"),
    *("networking.gke.io/*", "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"),
)
_SET_BY_REPRISE = (
    *("name", "generateName", "namespace", "ownerReferences", "finalizers"),
    *("labels[reprise.dev/*]", "annotations[reprise.dev/*]"),
)

REFUSED: tuple[str, ...] = (
    "volumes[].hostPath",
    *(f"volumes[].{kind}" for kind in _STORAGE),
    "hostNetwork",
    "hostPID",
    "hostIPC",
    *("nodeName", "schedulerName", "schedulingGates"),
    # Reprise decides who goes first and who makes room.
    *("priority", "preemptionPolicy", "priorityClassName", "priorityClassName=system-*"),
    "tolerations[].key=",
    "ephemeralContainers",
    *(f"{kind}.ports[].hostPort" for kind in _BOTH),
    *(f"{kind}.{each}.httpGet.host" for kind in _BOTH for each in _HANDLERS),
    *(f"{kind}.{each}.tcpSocket.host" for kind in _BOTH for each in _HANDLERS),
    *(f"{kind}.securityContext.privileged" for kind in _BOTH),
    *(f"{kind}.securityContext.capabilities.add" for kind in _BOTH),
    *(f"{kind}.securityContext.procMount=Unmasked" for kind in _BOTH),
    "securityContext.sysctls",
    *(f"{kind}securityContext.windowsOptions.hostProcess" for kind in _ANYWHERE),
    *(f"{kind}securityContext.seccompProfile.type=Unconfined" for kind in _ANYWHERE),
    *(f"{kind}securityContext.appArmorProfile.type=Unconfined" for kind in _ANYWHERE),
    *(
        f"{kind}securityContext.seLinuxOptions.{part}"
        for kind in _ANYWHERE
        for part in ("type", "user", "role")
    ),
    *(f"metadata.annotations[{key}]" for key in _ANNOTATIONS),
    *(f"metadata.{name}" for name in _SET_BY_REPRISE),
)
"""The refused fields of a `pod_spec`.

They reach beyond the pod: into its node, its network, the storage of others, or past the cluster's
scheduler. The fields that Reprise sets itself are refused, too, because they would be overwritten.

Each is a path of fields in a pod's `spec`, or in its `metadata`. `[]` stands for every item of a
list, `[name]` for a key of an object, where `*` matches anything. `=value` refuses only this value,
again with `*`. `=` alone refuses that the field is missing. A field that is absent, null, false, 0
or empty is never refused otherwise.
"""

_KEY = re.compile(r"(?P<path>.+)\[(?P<key>[^\]]+)\]")


def refused_paths(allowed: Collection[str] = (), added: Iterable[str] = ()) -> tuple[str, ...]:
    """Return `REFUSED` without the paths that an operator allows, and with the added ones.

    Raises `ValueError` if an allowed path is not in `REFUSED`: it may be misspelt.
    """
    if unknown := sorted(set(allowed) - set(REFUSED)):
        raise ValueError(f"not refused by default: {', '.join(unknown)}")
    return (*(path for path in REFUSED if path not in allowed), *added)


def refusal(
    pod_spec: Mapping[str, Any], spec: Mapping[str, Any], refused: Iterable[str]
) -> str | None:
    """Return the first refused field that a `pod_spec` uses, with its place; None if there is none.

    `spec` is the pod's own, which may be the whole `pod_spec`.
    """
    inner = "" if spec is pod_spec else "spec."
    metadata = pod_spec.get("metadata") or {}
    # A quick check of the first two fields: most specifications are short, and there are many
    # rules.
    outer = {False: _fields(spec), True: _fields(metadata)}
    for rule in map(_parsed, refused):
        fields = outer[rule.of_metadata].get(rule.begin)
        if fields is None or (rule.then and not rule.missing and rule.then not in fields):
            continue
        message = _refusal(pod_spec if rule.of_metadata else spec, rule)
        if message is not None:
            return message if rule.of_metadata else inner + message
    return None


class _Rule(NamedTuple):
    """A parsed path of `REFUSED`.

    `begin` and `then` are the first two fields, below `metadata` if `of_metadata`. `key` is a
    pattern of keys, and `only` the value that is refused, "" for any.
    """

    begin: str
    then: str
    of_metadata: bool
    path: str
    key: str
    only: str
    missing: bool


def _fields(value: object) -> Mapping[str, Collection[str]]:
    """Return the fields of an object, each with the fields inside of it or of its items."""
    found: dict[str, Collection[str]] = {}
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        items = inner if isinstance(inner, list) else [inner]
        found[name] = {key for item in items if isinstance(item, Mapping) for key in item}
    return found


@lru_cache(maxsize=1024)
def _parsed(rule: str) -> _Rule:
    path, is_value, only = rule.partition("=")
    by_key = _KEY.fullmatch(path)
    path, key = (by_key["path"], by_key["key"]) if by_key else (path, "")
    of_metadata = path.startswith("metadata.")
    begin, _, rest = path.removeprefix("metadata.").replace("[]", "").partition(".")
    then = rest.partition(".")[0]
    return _Rule(begin, then, of_metadata, path, key, only, bool(is_value) and not only)


def _refusal(value: Mapping[str, Any], rule: _Rule) -> str | None:
    if rule.missing:
        return _missing(value, rule.path)
    for place, found in _found(value, rule):
        if _is_one_of(found, rule.only) if rule.only else found:
            return f"{place}: is refused here"
    return None


def _missing(value: object, path: str) -> str | None:
    parent, _, name = path.rpartition(".")
    for place, found in values(value, parent):
        if isinstance(found, Mapping) and not found.get(name):
            return f"{place}.{name}: must be given here"
    return None


def _found(value: object, rule: _Rule) -> Iterator[tuple[str, object]]:
    if not rule.key:
        yield from values(value, rule.path)
        return
    for place, inner in values(value, rule.path):
        for key in inner if isinstance(inner, Mapping) else ():
            if fnmatchcase(key, rule.key):
                yield f"{place}[{key}]", key


def _is_one_of(found: object, only: str) -> bool:
    if "*" in only:
        return isinstance(found, str) and fnmatchcase(found, only)
    return only in (found, json.dumps(found))


def values(value: object, path: str, place: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value at the path, with its place. Values of another shape are skipped."""
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
            yield from values(each, rest, where)
        else:
            yield where, each
