"""The security context of sessions' pods where nobody has said one. Pure.

It meets the Pod Security Standard `restricted`. Each field that the specification has already, be
it its author's or a default of somebody else, stays as it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

RESTRICTED, OFF = "restricted", "off"
LEVELS = (RESTRICTED, OFF)
USER = 1000
"""The user and group id of containers that do not say whose they are."""

_WHO = frozenset({"runAsUser", "runAsNonRoot"})
_SYSTEM = "kubernetes.io/os"

Object = dict[str, Any]


def restrict(spec: Object, containers: Iterable[Object]) -> None:
    """Complete the security contexts of a pod's specification and of its containers, init
    containers included."""
    if _is_windows(spec):
        return
    outer: Object = dict(spec.get("securityContext") or {})
    outer.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    given_user = False
    for container in containers:
        own: Object = container.get("securityContext") or {}
        said = {**outer, **own}
        who = _who(said)
        given_user = given_user or "runAsUser" in who
        container["securityContext"] = {**_rights(said), **who, **own}
    if given_user and "fsGroup" not in outer:
        # Else a container without root's rights could not write to its volumes.
        outer |= {"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"}
    spec["securityContext"] = outer


def _who(said: Mapping[str, Any]) -> Object:
    if said.get("runAsUser"):
        return {"runAsNonRoot": True} if "runAsNonRoot" not in said else {}
    # One that says `runAsNonRoot: true` alone has the user of its image.
    if _WHO & said.keys():
        return {}
    return {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": said.get("runAsGroup", USER)}


def _rights(said: Mapping[str, Any]) -> Object:
    # Who asks for root, or for privileges that an operator has allowed, asks for root's rights.
    if said.get("runAsUser") == 0 or said.get("runAsNonRoot") is False or said.get("privileged"):
        return {}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _is_windows(spec: Mapping[str, Any]) -> bool:
    named = [(spec.get("os") or {}).get("name"), (spec.get("nodeSelector") or {}).get(_SYSTEM)]
    return "windows" in named
