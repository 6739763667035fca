"""What a Kubernetes pod object says about its end, in the wire form of a termination.

Nothing is judged here, only picked out: which of a pod's many words are about its end. Leaves are
passed on as they are; the reader of the wire form drops those of a wrong type.
"""

from collections.abc import Iterator
from typing import Any

from retry.evidence.node_refusals import REFUSED

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
WORKLOAD_EVICTED = "WorkloadEvicted"
"""How the reasons of Kueue's evictions begin; what they are due to comes after it."""

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
    containers = _containers(pod)
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
    elif (eviction := _workload_eviction(pod)) is not None:
        yield _text(eviction, "reason")
    elif not deleted_by_us and _was_deleted(pod):
        yield "PodDeleted"
    if _unscheduled(pod) is not None:
        yield "Unschedulable"
    yield from _of_its_node(pod, containers)


def _of_its_node(pod: _Object, containers: list[_Object]) -> Iterator[str]:
    if _node_is_gone(pod, containers):
        yield "NodeLost"
    if _node_shut_down(pod):
        yield "NodeShutdown"
    if _node_refused(pod):
        yield REFUSED


def _disruption(pod: _Object) -> _Object | None:
    """The control plane or the kubelet was about to end the pod, for a reason of its own."""
    return _condition(pod, "DisruptionTarget", "True")


def _workload_eviction(pod: _Object) -> _Object | None:
    """Kueue took the pod's place back: it has a condition of its own for that."""
    stopped = _condition(pod, "TerminationTarget", "True")
    evicted = _text(stopped, "reason").startswith(WORKLOAD_EVICTED)
    return stopped if evicted else None


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
        container.get("exit_code") for container in containers if not container["sidecar"]
    )


def _node_shut_down(pod: _Object) -> bool:
    """The kubelet stopped the pod since its node was to shut down. That is all that it means by
    this word of a pod; elsewhere it says nothing."""
    return _text(_object(pod, "status"), "reason") == "Terminated"


def _node_refused(pod: _Object) -> bool:
    """The kubelet says why it failed the pod, and knows of no container of it."""
    why = _text(_object(pod, "status"), "reason")
    return bool(why) and pod_phase(pod) == "Failed" and not _statuses(pod)


def _pod_message(pod: _Object) -> str:
    """Give what the cluster says of the pod, or else of whatever ended it or holds it up."""
    status = _object(pod, "status")
    waiting = [_object(_object(each, "state"), "waiting") for each in _those_that_tell(pod)]
    ended_by = (_disruption(pod), _workload_eviction(pod))
    sayings = (status, *ended_by, *waiting, _unscheduled(pod))
    return next((said for each in sayings if (said := _text(each, "message"))), "")


def _those_that_tell(pod: _Object) -> list[_Object]:
    """The container statuses but for those of sidecars, if another container has failed."""
    sidecars, statuses = sidecar_names(pod), _statuses(pod)
    others = [each for each in statuses if _text(each, "name") not in sidecars]
    ends = (_object(_object(each, "state"), "terminated") for each in others)
    return others if any(end.get("exitCode") for end in ends) else statuses


def _statuses(pod: _Object) -> list[_Object]:
    status = _object(pod, "status")
    return [*_items(status, "initContainerStatuses"), *_items(status, "containerStatuses")]


def _containers(pod: _Object) -> list[_Object]:
    status, sidecars = _object(pod, "status"), sidecar_names(pod)
    return [
        {
            "name": each.get("name"),
            "init": init,
            "sidecar": init and _text(each, "name") in sidecars,
            **_ending(each),
        }
        for init, kind in ((True, "initContainerStatuses"), (False, "containerStatuses"))
        for each in _items(status, kind)
    ]


def sidecar_names(pod: object) -> frozenset[str]:
    """Give the names of the init containers that run as long as the pod does."""
    inits = _items(_object(pod, "spec"), "initContainers")
    stay = (each for each in inits if _text(each, "restartPolicy") == "Always")
    return frozenset(name for each in stay if (name := _text(each, "name")))


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
