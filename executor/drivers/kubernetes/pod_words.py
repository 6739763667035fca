"""The messages of the cluster about a pod: in the pod as `pod_trim` leaves it, and in core Events.

Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from executor.drivers.kubernetes.pod_trim import Pod

LAST = "~"
"""A text that sorts after every time."""
KUEUES = "TerminationTarget"
"""The condition of a pod that Kueue is about to end."""
_TELLING = frozenset({("DisruptionTarget", "True"), (KUEUES, "True"), ("PodScheduled", "False")})
_NOTHING_YET = frozenset({"", "ContainerCreating", "PodInitializing"})
_CONTAINER_PATH = re.compile(r"spec\.(?:c|initC)ontainers\{(.+)\}")
_FATAL_PROBES = ("Liveness probe", "Startup probe")


class Probes:
    """The probes that ended containers of a pod.

    A pod does not say that a probe ended one of its containers; Events do.
    """

    def __init__(self) -> None:
        self._failed: dict[str, str] = {}
        self._killed: dict[str, str] = {}

    def hear(self, event: Mapping[str, Any]) -> None:
        """Note a core Event. The order of Events does not matter."""
        reason, message = (str(event.get(name) or "") for name in ("reason", "message"))
        about = (event.get("involvedObject") or {}).get("fieldPath") or ""
        container = _CONTAINER_PATH.fullmatch(str(about))
        if container and reason == "Unhealthy" and message.startswith(_FATAL_PROBES):
            self._failed[container[1]] = message
        if container and reason == "Killing" and " probe" in message:
            self._killed[container[1]] = message.partition(", will be ")[0]

    def why(self, pod: Pod | None) -> str:
        """Return the message of the probe that ended the pod's first failed container; "" if none
        did."""
        failed = first_failed(pod)
        killed = self._killed.get(failed[2], "") if failed else ""
        return self._failed.get(failed[2], killed) if failed and killed else ""


def containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    yield from pod["status"]["initContainerStatuses"]
    yield from pod["status"]["containerStatuses"]


def waiting(container: Mapping[str, Any]) -> Mapping[str, Any]:
    why: Mapping[str, Any] = container["state"].get("waiting", {})
    return why


def first_failed(pod: Pod | None) -> tuple[bool, str, str] | None:
    """Return the container of a pod that failed first, as (is a sidecar, time, name).

    A sidecar counts only if no other container failed. The server finds the same one.
    """
    failed = []
    sidecars = _sidecars(pod) if pod is not None else frozenset()
    for container in containers(pod) if pod is not None else ():
        terminated, name = _terminated(container), container.get("name", "")
        if terminated.get("exitCode"):
            failed.append((name in sidecars, str(terminated.get("finishedAt", LAST)), str(name)))
    return min(failed, default=None)


def _terminated(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how the container ended; of one that waits for its next start, how it did last."""
    again = waiting(container).get("reason") == "CrashLoopBackOff"
    ended: Mapping[str, Any] = container["lastState" if again else "state"].get("terminated", {})
    return ended


def _sidecars(pod: Pod) -> frozenset[str]:
    inits = pod["spec"].get("initContainers", ())
    return frozenset(
        str(each.get("name", "")) for each in inits if each.get("restartPolicy") == "Always"
    )


def condition(pod: Pod, kind: str) -> str:
    found = (each for each in pod["status"]["conditions"] if each.get("type") == kind)
    return next((str(each.get("status", "")) for each in found), "")


def messages(pod: Pod) -> Iterator[str]:
    """Yield what the cluster says about the pod, the most important first."""
    status = pod["status"]
    if "reason" in status or "message" in status:
        yield reason_and_message(status)
    elif status.get("phase") == "Unknown":
        yield "Unknown: its node does not answer"
    for container in containers(pod):
        why = waiting(container)
        if why.get("reason", "") not in _NOTHING_YET:
            yield f"{container.get('name', '')}: {reason_and_message(why)}"
    for each in status["conditions"]:
        if (each.get("type"), each.get("status")) in _TELLING:
            yield reason_and_message(each)


def reason_and_message(words: Mapping[str, Any]) -> str:
    return ": ".join(str(words[name]) for name in ("reason", "message") if words.get(name))


def event_time(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return max((each for each in times if isinstance(each, str)), default="")
