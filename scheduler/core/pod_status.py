"""Pod status: whether a pod has started, read from the pod as its cluster shows it. Pure.

The rules form a table over all containers, init containers included; the first match counts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from retry.evidence.causes import RetryCause, classify
from retry.evidence.cluster_words import RUNTIME_BUSY, meant
from retry.evidence.node_refusals import REFUSED
from retry.evidence.termination import Termination, termination_from_pod

CLUSTER_WORDS_LENGTH = 400
"""Maximum characters of the cluster's own words in a message."""
NAME_LENGTH = 255

_Object = Mapping[str, Any]


class Progress(StrEnum):
    """The progress of a pod on its way to running."""

    UNKNOWN = "unknown"
    """There is no pod, or the value cannot be read as one."""
    WAITING = "waiting"
    """It has no node yet."""
    INITIALIZING = "initializing"
    """It has a node; images, volumes or init containers are in progress."""
    SUSPECT = "suspect"
    """A container has a problem that may pass by itself."""
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StartState:
    """The state of a pod's start, as its users are told it.

    `cause` is the cause of the failure: at once if the progress is FAILED, else if the state lasts
    too long. It is None once the pod runs. `advice` says what a user can do about it.
    """

    progress: Progress
    cause: RetryCause | None = None
    message: str = ""
    advice: str = ""

    @property
    def verdict(self) -> str:
        """Return the message of a session that fails for this, a few hundred characters."""
        return " ".join(f"{part}." for part in (self.message, self.advice) if part)


CHECK_IMAGE = "Check that the image exists and that this cluster may pull it"
ASK_ADMINISTRATOR = (
    "If this names something of the session, correct it; else ask the cluster's administrator"
)
ASK_FOR_LESS = (
    "Check what the session asks for (resources, node selector, tolerations), or ask the cluster's "
    "administrator whether nodes for it are to come"
)
ASK_FOR_MORE_MEMORY = "Give the session more memory"
_NEVER_STARTS = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "StartError",
        "RunContainerError",
        "ContainerCannotRun",
        "RROUnsupported",
        "ImageVolumeMountFailed",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
    }
)
_MAY_PASS = frozenset({"ErrImagePull", "RegistryUnavailable", "ImageInspectError"})
_IMAGE_TROUBLES = {
    "InvalidImageName": "its image {image} has no valid name",
    "ImagePullBackOff": "its image {image} cannot be pulled",
    "SignatureValidationFailed": "the signature of its image {image} is not valid",
    "ErrImageNeverPull": "its image {image} is not on the node and must not be pulled there",
}
_START_TROUBLES = {"CrashLoopBackOff": "it ends and is started again, again and again"}
_START_TROUBLES["RROUnsupported"] = "its node cannot make its mounts read-only recursively"
_USUAL_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})

# A condition that stands for each cause when the pod itself does not show it.
_WORDS = {
    RetryCause.AGENT_TRANSIENT: "PodVanished",
    RetryCause.IMAGE_PULL_FAILURE: "ImagePullTimeout",
    RetryCause.START_FAILURE: "StartTimeout",
    RetryCause.SCHEDULER_TIMEOUT: "Unschedulable",
}


def assess(pod: object, event: str = "") -> StartState:
    """Return the state of a pod; any JSON value is read as a pod. Never raises.

    `event` is the last core Event about it, such as `FailedMount: ...`.
    """
    if not isinstance(pod, Mapping):
        return _NO_POD
    state = _of_containers(pod) or _of_phase(pod)
    if state.progress is Progress.INITIALIZING:
        state = _EVENT_TROUBLES.get(_event_reason(event), state)
    rank = _rank(pod)
    if state.message and rank:
        return replace(state, message=f"rank {rank}: {state.message}")
    return state


def evidence(pod: object, cause: RetryCause, event: str = "") -> Termination:
    """Return the facts of a session whose start failed with this pod for this cause.

    If the pod shows a fact that ranks higher in the table of causes, that cause wins. An Event
    supplies the message that the pod itself lacks.
    """
    termination = replace(
        termination_from_pod(pod, deleted_by_us=True), status="error", exit_code=None
    )
    termination = replace(termination, rank=_rank(pod) or None)
    if not termination.pod_message and _event_reason(event):
        termination = replace(termination, pod_message=event)
    if classify(termination) is cause or cause not in _WORDS:
        return termination
    return replace(termination, conditions=(*termination.conditions, _WORDS[cause]))


def _rank(pod: object) -> int:
    """Return the rank of one pod of several; 0 if the session has only one."""
    labels = _object(_object(pod, "metadata"), "labels") if isinstance(pod, Mapping) else {}
    rank = _text(labels, "reprise.dev/rank")
    return int(rank) if rank.isdecimal() and len(rank) < _LONGEST_RANK else 0


def _of_containers(pod: _Object) -> StartState | None:
    waiting = [(each, _waits_for(each)) for each in _containers(pod)]
    for each, reason in waiting:
        if reason in _IMAGE_TROUBLES:
            invalid = reason == "InvalidImageName"
            cause = RetryCause.VALIDATION_ERROR if invalid else RetryCause.IMAGE_PULL_FAILURE
            return _trouble(Progress.FAILED, cause, each, _IMAGE_TROUBLES[reason], CHECK_IMAGE)
    for each, reason in waiting:
        if reason in _NEVER_STARTS:
            what = _START_TROUBLES.get(reason, "it could not be started")
            cause = RetryCause.START_FAILURE
            return _trouble(Progress.FAILED, cause, each, what, ASK_ADMINISTRATOR)
    for each, reason in waiting:
        if reason == "OOMKilled":
            cause, what = RetryCause.OOM_KILLED, "its memory limit is too low to start it"
            return _trouble(Progress.FAILED, cause, each, what, ASK_FOR_MORE_MEMORY)
    for each, reason in waiting:
        if reason == RUNTIME_BUSY:
            cause, what = (
                RetryCause.AGENT_TRANSIENT,
                "its node is busy with an earlier try to create it",
            )
            return _trouble(Progress.SUSPECT, cause, each, what, "")
        if reason in _MAY_PASS:
            cause, what = RetryCause.IMAGE_PULL_FAILURE, _IMAGE_TROUBLES["ImagePullBackOff"]
            return _trouble(Progress.SUSPECT, cause, each, what, CHECK_IMAGE)
    return None


def _trouble(
    progress: Progress, cause: RetryCause, container: _Object, what: str, advice: str
) -> StartState:
    trouble = what.replace("{image} ", _image(container))
    return StartState(
        progress, cause, f"{_called(container)}: {trouble}{_waiting_words(container)}", advice
    )


def _of_phase(pod: _Object) -> StartState:
    status, node = _object(pod, "status"), _text(_object(pod, "spec"), "nodeName")
    match _text(status, "phase"):
        case "Failed":
            end = termination_from_pod(pod)
            refused = REFUSED in end.conditions
            message = f"node {node[:NAME_LENGTH]} has refused the pod" if refused else _HAS_FAILED
            advice = ASK_ADMINISTRATOR if refused else ""
            return StartState(Progress.FAILED, classify(end), message + _words(status), advice)
        case "Unknown":
            message = f"node {node[:NAME_LENGTH] or 'of the pod'} does not answer"
            return StartState(Progress.FAILED, RetryCause.AGENT_TRANSIENT, message)
        case "Pending":
            return _initializes(pod) if node else _waits_for_node(pod)
        case phase:
            return _PLAIN.get(phase, _NO_POD)


def _waits_for_node(pod: _Object) -> StartState:
    scheduled = _condition(pod, "PodScheduled")
    message = "no node has been found for the pod" + _words(scheduled, but="Unschedulable")
    return StartState(Progress.WAITING, RetryCause.SCHEDULER_TIMEOUT, message, ASK_FOR_LESS)


def _initializes(pod: _Object) -> StartState:
    """Return the state of a pod that has a node, by what it waits for: an image, or its start."""
    setting_up = _text(_condition(pod, "PodReadyToStartContainers"), "status") == "False"
    if setting_up or not any(_containers(pod)):
        return _starting("the node prepares the pod: its volumes, its network")
    for each in _containers(pod):
        if _text(_waiting(each), "reason") not in _USUAL_WAITS:
            return _starting(f"{_called(each)} waits{_waiting_words(each)}")
    if busy := next(_running_inits(pod), None):
        return _starting(f"init {_called(busy)} runs")
    if pulled := next((each for each in _containers(pod) if _needs_image(each)), None):
        message = f"the image {_image(pulled)}of {_called(pulled)} is being pulled"
        return StartState(
            Progress.INITIALIZING, RetryCause.IMAGE_PULL_FAILURE, message, CHECK_IMAGE
        )
    return _starting("its containers are being created")


def _event_reason(event: str) -> str:
    """Return the reason in the text of an Event; "" if the text is not one."""
    found = _EVENT.match(event)
    return found["reason"] if found else ""


def _starting(message: str) -> StartState:
    return StartState(Progress.INITIALIZING, RetryCause.START_FAILURE, message, ASK_ADMINISTRATOR)


def _running_inits(pod: _Object) -> Iterator[_Object]:
    """Yield the init containers that the others wait for; sidecars run as long as the pod."""
    stays = {
        each.get("name")
        for each in _items(_object(pod, "spec"), "initContainers")
        if each.get("restartPolicy") == "Always" and isinstance(each.get("name"), str)
    }
    for each in _items(_object(pod, "status"), "initContainerStatuses"):
        if "running" in _object(each, "state") and _text(each, "name") not in stays:
            yield each


def _needs_image(container: _Object) -> bool:
    return "waiting" in _object(container, "state") and not _text(container, "imageID")


def _called(container: _Object) -> str:
    return f"container {_text(container, 'name')[:63]}".rstrip()


def _image(container: _Object) -> str:
    name = _text(container, "image")[:NAME_LENGTH]
    return f"{name} " if name else ""


def _waiting_words(container: _Object) -> str:
    last = _object(_object(container, "lastState"), "terminated")
    code = last.get("exitCode")
    ended = f", its last exit code is {code}" if isinstance(code, int) else ""
    return f"{_words(_waiting(container))}{ended}"


def _words(status: _Object, *, but: str = "") -> str:
    """Return the cluster's reason and message in brackets; omit the reason `but`."""
    words = (_text(status, "reason"), _text(status, "message"))
    text = ": ".join(each for each in words if each and each != but)
    return f" ({text[:CLUSTER_WORDS_LENGTH].rstrip('. ')})" if text else ""


def _containers(pod: _Object) -> Iterator[_Object]:
    status = _object(pod, "status")
    yield from _items(status, "initContainerStatuses")
    yield from _items(status, "containerStatuses")


def _waiting(container: _Object) -> _Object:
    return _object(_object(container, "state"), "waiting")


def _waits_for(container: _Object) -> str:
    """Return the reason why a container waits, as it is meant; "" if it does not wait."""
    waiting = _waiting(container)
    return meant(_text(waiting, "reason"), _text(waiting, "message"))


def _condition(pod: _Object, kind: str) -> _Object:
    conditions = _items(_object(pod, "status"), "conditions")
    return next((each for each in conditions if each.get("type") == kind), {})


def _object(value: _Object, name: str) -> _Object:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def _items(value: _Object, name: str) -> list[_Object]:
    inner = value.get(name)
    return [each for each in inner if isinstance(each, Mapping)] if isinstance(inner, list) else []


def _text(value: _Object, name: str) -> str:
    inner = value.get(name)
    return inner if isinstance(inner, str) else ""


_PLAIN = {
    "Running": StartState(Progress.RUNNING),
    "Succeeded": StartState(Progress.FINISHED),
}
_LONGEST_RANK = 8
_HAS_FAILED = "the pod has failed"
# The rank comes first if the session has several pods.
_EVENT = re.compile(r"(rank \d+: )?(?P<reason>[A-Z][A-Za-z]+): ")
_EVENT_TROUBLES = {
    "FailedMount": _starting("its volumes cannot be mounted"),
    "FailedMapVolume": _starting("its volumes cannot be mounted"),
    "FailedAttachVolume": _starting("its volumes cannot be attached to the node"),
    "FailedCreatePodSandBox": _starting("its sandbox or its network cannot be made"),
    "FailedPodSandBoxStatus": _starting("its sandbox or its network cannot be made"),
    "NetworkNotReady": _starting("the network of its node is not ready"),
    "FailedPrepareDynamicResources": _starting("the devices that it claims cannot be prepared"),
}
_NO_POD = StartState(Progress.UNKNOWN, RetryCause.AGENT_TRANSIENT, "the cluster shows no pod of it")
