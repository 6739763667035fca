"""What a Kubernetes pod object says about its end, in the wire form of a termination.

Nothing is judged here, only picked out: which of a pod's many words are about its end. Leaves are
passed on as they are; the reader of the wire form drops those of a wrong type.
"""

from collections.abc import Iterator
from typing import Any

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})

_Object = dict[str, Any]

# Such as whoever ended the pod puts on it. All others (`Ready`, ...) are about its life.
_ENDS = frozenset({"Preempting", "Preempted", "Evicted", "DeadlineExceeded", "OOMKilled"})


def pod_facts(pod: object, *, deleted_by_us: bool = False) -> dict[str, Any]:
    """Give the facts that the pod states, as `Termination.from_json` reads them.

    `pod` is the JSON value of the Kubernetes API; what is no pod states nothing. Never raises.
    """
    if not isinstance(pod, dict):
        return {}
    status = _object(pod, "status")
    containers = [*_containers(status, init=True), *_containers(status, init=False)]
    succeeded = pod_phase(pod) == "Succeeded"
    facts = {
        "status": "terminated" if succeeded else "error",
        "exit_code": 0 if succeeded else None,
        "conditions": list(_conditions(pod, containers, deleted_by_us)),
        "reason": status.get("reason"),
        "pod_message": _pod_message(pod),
        "node": _object(pod, "spec").get("nodeName"),
        "containers": containers,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def pod_phase(pod: object) -> str:
    """Give the pod's phase in the cluster's spelling, or nothing."""
    return _text(_object(pod, "status"), "phase")


def _conditions(pod: _Object, containers: list[_Object], deleted_by_us: bool) -> Iterator[str]:
    """Give the conditions that ended the pod: its own, and those that its shape tells."""
    for condition in _items(_object(pod, "status"), "conditions"):
        if _text(condition, "status") == "True" and _text(condition, "type") in _ENDS:
            yield _text(condition, "type")
    disruption = _disruption(pod)
    if disruption is not None:
        yield "DisruptionTarget"
        if reason := _text(disruption, "reason"):
            yield reason
    elif not deleted_by_us and _was_deleted(pod):
        yield "PodDeleted"
    if _unscheduled(pod) is not None:
        yield "Unschedulable"
    if _node_is_gone(pod, containers):
        yield "NodeLost"
    if _node_shut_down(pod):
        yield "NodeShutdown"


def _disruption(pod: _Object) -> _Object | None:
    """The control plane or the kubelet was about to end the pod, for a reason of its own."""
    return _condition(pod, "DisruptionTarget", "True")


def _unscheduled(pod: _Object) -> _Object | None:
    """The scheduler has found no node so far; a pod that has one once could not be placed."""
    scheduled = _condition(pod, "PodScheduled", "False")
    if scheduled is None or _text(scheduled, "reason") != "Unschedulable":
        return None
    return None if _text(_object(pod, "spec"), "nodeName") else scheduled


def _condition(pod: _Object, kind: str, status: str) -> _Object | None:
    for condition in _items(_object(pod, "status"), "conditions"):
        if _text(condition, "type") == kind and _text(condition, "status") == status:
            return condition
    return None


def _was_deleted(pod: _Object) -> bool:
    """Somebody asked for the pod's deletion, and not of a pod that was at its end already.

    The request makes a new generation of the pod. A last status that speaks of an older one was
    written before anybody who runs the pod had seen the request.
    """
    metadata = _object(pod, "metadata")
    if not _text(metadata, "deletionTimestamp"):
        return False
    observed = _object(pod, "status").get("observedGeneration")
    generation = metadata.get("generation")
    if isinstance(observed, int) and isinstance(generation, int) and observed < generation:
        return pod_phase(pod) not in TERMINAL_PHASES
    return True


def _node_is_gone(pod: _Object, containers: list[_Object]) -> bool:
    """Nobody has seen the containers end.

    A kubelet calls no pod failed while a container runs, unless it says why it stops it.
    """
    phase = pod_phase(pod)
    if phase != "Failed" or _text(_object(pod, "status"), "reason"):
        return phase == "Unknown"
    return any("running" in _object(each, "state") for each in _statuses(pod)) and not any(
        container.get("exit_code") for container in containers
    )


def _node_shut_down(pod: _Object) -> bool:
    """The kubelet stopped the pod since its node was to shut down. That is all that it means by
    this word of a pod; elsewhere it says nothing."""
    return _text(_object(pod, "status"), "reason") == "Terminated"


def _pod_message(pod: _Object) -> str:
    """Give what the cluster says of the pod, or else of whatever ended it or holds it up."""
    status = _object(pod, "status")
    waiting = [_object(_object(each, "state"), "waiting") for each in _statuses(pod)]
    sayings = (status, _disruption(pod), *waiting, _unscheduled(pod))
    return next((said for each in sayings if (said := _text(each, "message"))), "")


def _statuses(pod: _Object) -> list[_Object]:
    status = _object(pod, "status")
    return [*_items(status, "initContainerStatuses"), *_items(status, "containerStatuses")]


def _containers(status: _Object, *, init: bool) -> list[_Object]:
    statuses = _items(status, "initContainerStatuses" if init else "containerStatuses")
    return [{"name": each.get("name"), "init": init, **_ending(each)} for each in statuses]


def _ending(container: _Object) -> _Object:
    state = _object(container, "state")
    if "terminated" in state:
        return _terminated(_object(state, "terminated"))
    reason = _text(_object(state, "waiting"), "reason")
    if reason != "CrashLoopBackOff":
        return {"reason": reason}
    last = _terminated(_object(_object(container, "lastState"), "terminated"))
    # The cluster waits before the next start, but this is why there has to be one.
    return last if _tells_more(last) else {**last, "reason": reason}


def _terminated(state: _Object) -> _Object:
    return {
        "exit_code": state.get("exitCode"),
        "reason": state.get("reason"),
        "message": state.get("message"),
        "finished_at": state.get("finishedAt"),
    }


def _tells_more(last: _Object) -> bool:
    reason, code = last["reason"], last["exit_code"]
    if reason == "OOMKilled":
        return bool(code)
    if reason == "Unknown":
        return bool(code == 255)
    return bool(reason == "ContainerStatusUnknown")


def _object(value: object, name: str) -> _Object:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _items(value: _Object, name: str) -> list[_Object]:
    inner = value.get(name)
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []


def _text(value: object, name: str) -> str:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, str) else ""
