"""The facts of a Kubernetes pod object about its end, in the wire form of a termination.

This module only selects the words about the end, and does not judge them. A reason that means
something else with its message is replaced (`cluster_words`). Other values are passed on as they
are; the reader of the wire form drops those of a wrong type.
"""

from collections.abc import Iterator
from typing import Any

from retry.evidence.cluster_words import WORKLOAD_EVICTED, meant
from retry.evidence.node_refusals import REFUSED

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_Object = dict[str, Any]

# Conditions that whoever ends the pod sets. All others (`Ready`, ...) are about its life.
_ENDS = frozenset({"Preempting", "Preempted", "Evicted", "DeadlineExceeded", "OOMKilled"})


def pod_facts(pod: object, *, deleted_by_us: bool = False) -> dict[str, Any]:
    """Return the facts that the pod states, as `Termination.from_json` reads them.

    `pod` is the JSON value of the Kubernetes API; a value that is no pod states nothing. Never
    raises.
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
    """Return the pod's phase in the cluster's spelling, "" if there is none."""
    return _text(_object(pod, "status"), "phase")


def _conditions(pod: _Object, containers: list[_Object], deleted_by_us: bool) -> Iterator[str]:
    """Yield the conditions that ended the pod: its own, and those its fields imply."""
    for condition in _items(_object(pod, "status"), "conditions"):
        if _text(condition, "status") == "True" and _text(condition, "type") in _ENDS:
            yield _text(condition, "type")
    disruption = _disruption(pod)
    if disruption is not None:
        yield "DisruptionTarget"
        if reason := _text(disruption, "reason"):
            yield reason
    elif (eviction := _workload_eviction(pod)) is not None:
        yield _reason(eviction)
    elif not deleted_by_us and _was_deleted(pod):
        yield "PodDeleted"
    if _unscheduled(pod):
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
    """Return the condition that the control plane or kubelet was to end the pod, or None."""
    return _condition(pod, "DisruptionTarget", "True")


def _workload_eviction(pod: _Object) -> _Object | None:
    """Return the condition that Kueue sets when it evicts the pod's workload, or None."""
    stopped = _condition(pod, "TerminationTarget", "True")
    evicted = _reason(stopped).startswith(WORKLOAD_EVICTED)
    return stopped if evicted else None


def _unscheduled(pod: _Object) -> bool:
    """Return whether the pod has waited for a node in vain.

    The cluster need not say why: a scheduler that does not exist says nothing.
    """
    if _text(_object(pod, "spec"), "nodeName") or _condition(pod, "PodScheduled", "True"):
        return False
    return pod_phase(pod) == "Pending" or _condition(pod, "PodScheduled", "False") is not None


def _condition(pod: _Object, kind: str, status: str) -> _Object | None:
    for condition in _items(_object(pod, "status"), "conditions"):
        if _text(condition, "type") == kind and _text(condition, "status") == status:
            return condition
    return None


def _was_deleted(pod: _Object) -> bool:
    """Return whether somebody deleted the pod before it had ended.

    A deletion request increases the pod's generation. If the last status observed an older
    generation, it was written before the node saw the request.
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
    """Return whether nobody saw the containers end.

    A kubelet sets a pod to Failed while a container runs only if it states a reason.
    """
    phase = pod_phase(pod)
    if phase != "Failed" or _text(_object(pod, "status"), "reason"):
        return phase == "Unknown"
    return any("running" in _object(each, "state") for each in _statuses(pod)) and not any(
        container.get("exit_code") for container in containers if not container["sidecar"]
    )


def _node_shut_down(pod: _Object) -> bool:
    """Return whether the kubelet stopped the pod because its node was to shut down. As a pod's
    reason this word has only that meaning; elsewhere it has none."""
    return _text(_object(pod, "status"), "reason") == "Terminated"


def _node_refused(pod: _Object) -> bool:
    """Return whether the kubelet failed the pod with a reason and without any container status."""
    why = _text(_object(pod, "status"), "reason")
    return bool(why) and pod_phase(pod) == "Failed" and not _statuses(pod)


def _pod_message(pod: _Object) -> str:
    """Return the cluster's message about the pod, or about what ended it or holds it up."""
    status = _object(pod, "status")
    waiting = [_object(_object(each, "state"), "waiting") for each in _decisive_statuses(pod)]
    ended_by = (_disruption(pod), _workload_eviction(pod))
    unscheduled = _condition(pod, "PodScheduled", "False") if _unscheduled(pod) else None
    sources = (status, *ended_by, *waiting, unscheduled)
    return next((message for each in sources if (message := _text(each, "message"))), "")


def _decisive_statuses(pod: _Object) -> list[_Object]:
    """Return the container statuses; without those of sidecars if another container failed."""
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
    """Return the names of the init containers that run as long as the pod does."""
    inits = _items(_object(pod, "spec"), "initContainers")
    stay = (each for each in inits if _text(each, "restartPolicy") == "Always")
    return frozenset(name for each in stay if (name := _text(each, "name")))


def _ending(container: _Object) -> _Object:
    state = _object(container, "state")
    if "terminated" in state:
        return _terminated(_object(state, "terminated"))
    reason = _reason(_object(state, "waiting"))
    if reason != "CrashLoopBackOff":
        return {"reason": reason}
    last = _terminated(_object(_object(container, "lastState"), "terminated"))
    # The cluster waits before the next start, but this is why a restart is needed.
    return last if _explains_restart(last) else {**last, "reason": reason}


def _terminated(state: _Object) -> _Object:
    return {
        "exit_code": state.get("exitCode"),
        "reason": _reason(state),
        "message": state.get("message"),
        "finished_at": state.get("finishedAt"),
    }


def _explains_restart(last: _Object) -> bool:
    reason, code = last["reason"], last["exit_code"]
    if reason == "OOMKilled":
        return bool(code)
    if reason == "Unknown":
        return bool(code == 255)
    return bool(reason == "ContainerStatusUnknown")


def _reason(of: _Object | None) -> str:
    """Return the reason of a condition or of a container's state, as it is meant."""
    return meant(_text(of, "reason"), _text(of, "message"))


def _object(value: object, name: str) -> _Object:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _items(value: _Object, name: str) -> list[_Object]:
    inner = value.get(name)
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []


def _text(value: object, name: str) -> str:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, str) else ""
