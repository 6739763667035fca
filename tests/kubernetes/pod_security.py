"""The Pod Security Standards, as far as Linux pods go: what `enforce` refuses.

An API server before 1.23 does not know them, and a newer one only warns of a Deployment's pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]

_USUAL_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_PLAIN_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir"),
        *("ephemeral", "persistentVolumeClaim", "projected", "secret"),
    }
)
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})


def baseline_problems(spec: Object) -> list[str]:
    """Return what the level `baseline` refuses in a pod's specification."""
    return [*_baseline_pod(spec), *(f for each in _containers(spec) for f in _baseline(each))]


def restricted_problems(spec: Object) -> list[str]:
    """Return what the level `restricted` refuses, and `baseline` with it."""
    found = baseline_problems(spec)
    found += [
        f"volume {each['name']}"
        for each in spec.get("volumes") or ()
        if not _PLAIN_VOLUMES & each.keys()
    ]
    outer = spec.get("securityContext") or {}
    for container in _containers(spec):
        found += [f"{container['name']}: {each}" for each in _restricted(container, outer)]
    return found


def _containers(spec: Object) -> Iterator[Object]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _baseline_pod(spec: Object) -> Iterator[str]:
    yield from (each for each in ("hostNetwork", "hostPID", "hostIPC") if spec.get(each))
    yield from ("hostPath" for each in spec.get("volumes") or () if "hostPath" in each)
    outer = spec.get("securityContext") or {}
    yield from ("sysctls" for _ in outer.get("sysctls") or ())
    yield from _unconfined(outer)


def _baseline(container: Object) -> Iterator[str]:
    inner = container.get("securityContext") or {}
    if inner.get("privileged"):
        yield "privileged"
    if inner.get("procMount", "Default") != "Default":
        yield "procMount"
    added = (inner.get("capabilities") or {}).get("add") or ()
    yield from (f"capability {each}" for each in added if each not in _USUAL_CAPABILITIES)
    yield from ("hostPort" for each in container.get("ports") or () if each.get("hostPort"))
    yield from _unconfined(inner)


def _unconfined(context: Object) -> Iterator[str]:
    for kind in ("seccompProfile", "appArmorProfile"):
        if (context.get(kind) or {}).get("type") == "Unconfined":
            yield f"{kind} Unconfined"


def _restricted(container: Object, outer: Object) -> Iterator[str]:
    inner = container.get("securityContext") or {}
    both = {**outer, **inner}
    if inner.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if both.get("runAsNonRoot") is not True:
        yield "runAsNonRoot"
    if both.get("runAsUser") == 0:
        yield "runAsUser"
    if (both.get("seccompProfile") or {}).get("type") not in _PROFILES:
        yield "seccompProfile"
    capabilities = inner.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield "capabilities.drop"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield "capabilities.add"
