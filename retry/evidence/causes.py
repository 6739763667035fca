"""The cause of an end: one word, from a table of facts whose first matching row counts."""

from enum import StrEnum

from retry.evidence.cluster_words import RUNTIME_BUSY, WORKLOAD_EVICTED
from retry.evidence.node_refusals import NODE_REFUSALS, REFUSED
from retry.evidence.termination import ContainerFacts, Termination, message_tail


class RetryCause(StrEnum):
    """The causes, highest rank first. If facts show several causes, the highest decides."""

    DEPENDENCY_FAILED = "dependency_failed"
    USER_CANCELLED = "user_cancelled"
    VALIDATION_ERROR = "validation_error"
    QUOTA_EXCEEDED = "quota_exceeded"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    LIMIT_EXCEEDED = "limit_exceeded"
    AGENT_TRANSIENT = "agent_transient"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    OOM_KILLED = "oom_killed"
    IMAGE_PULL_FAILURE = "image_pull_failure"
    START_FAILURE = "start_failure"
    SCHEDULER_TIMEOUT = "scheduler_timeout"
    KERNEL_NONZERO_EXIT = "kernel_nonzero_exit"
    UNKNOWN = "unknown"


class CauseClass(StrEnum):
    """The class of a cause: never retried, the platform's fault, or the work's own failure."""

    NEVER = "never"
    PLATFORM = "platform"
    FAILURE = "failure"


CANCELLED_CAUSES = (RetryCause.USER_CANCELLED, RetryCause.DEPENDENCY_FAILED)
"""The causes of sessions that end as `CANCELLED`."""
NEVER_CAUSES = frozenset(
    {*CANCELLED_CAUSES, RetryCause.VALIDATION_ERROR, RetryCause.QUOTA_EXCEEDED}
)
PLATFORM_CAUSES = frozenset({RetryCause.PREEMPTED, RetryCause.EVICTED, RetryCause.AGENT_TRANSIENT})
FAILURE_CAUSES = frozenset(RetryCause) - NEVER_CAUSES - PLATFORM_CAUSES

_CLASSES = {
    **dict.fromkeys(NEVER_CAUSES, CauseClass.NEVER),
    **dict.fromkeys(PLATFORM_CAUSES, CauseClass.PLATFORM),
    **dict.fromkeys(FAILURE_CAUSES, CauseClass.FAILURE),
}


def cause_class(cause: RetryCause) -> CauseClass:
    return _CLASSES[cause]


def classify(termination: Termination) -> RetryCause:
    """Return the cause of the first row whose fact the termination has. Never raises."""
    if termination.status == "cancelled":
        unmet = DEPENDENCY_FAILED in termination.conditions
        return RetryCause.DEPENDENCY_FAILED if unmet else RetryCause.USER_CANCELLED
    return min(_rows(termination), key=_RANKS.__getitem__, default=RetryCause.UNKNOWN)


def rule_conditions(termination: Termination) -> frozenset[str]:
    """Return the conditions of `RULE_CONDITIONS` that hold; several may."""
    rows = _rows(termination)
    return frozenset([_CONDITIONS[row] for row in rows if row in _CONDITIONS])


def oom_killed(container: ContainerFacts) -> bool:
    """Return whether this container was OOM-killed and failed by it.

    With exit code 0 only a child process was killed, and the container went on to succeed.
    """
    return container.reason == "OOMKilled" and container.exit_code != 0


def _rows(termination: Termination) -> list[RetryCause]:
    """Return the rows of all facts of the termination, in no order and with duplicates."""
    rows = [row for word in termination.conditions if (row := _stated(word))]
    reason_row = _reason_row(termination) if termination.reason else None
    if reason_row:
        rows.append(reason_row)
    elif REFUSED in termination.conditions:
        # An unknown reason; another node may accept the pod.
        rows.append(RetryCause.AGENT_TRANSIENT)
    # Every disruption has this condition; another word says which kind it was.
    if "DisruptionTarget" in termination.conditions and RetryCause.PREEMPTED not in rows:
        rows.append(RetryCause.EVICTED)
    if termination.lease_expired:
        rows.append(RetryCause.AGENT_TRANSIENT)
    if termination.exit_code:
        rows.append(RetryCause.KERNEL_NONZERO_EXIT)
    rows += _container_rows(termination, sidecars=False) or _container_rows(
        termination, sidecars=True
    )
    return rows


def _container_rows(termination: Termination, *, sidecars: bool) -> list[RetryCause]:
    """Return the rows of the sidecars' facts, or of those of all other containers."""
    rows = []
    for container in termination.containers:
        if container.sidecar is not sidecars:
            continue
        if row := _ending_row(container.reason, container.exit_code):
            rows.append(row)
        if container.exit_code:
            rows.append(RetryCause.KERNEL_NONZERO_EXIT)
    return rows


def _reason_row(termination: Termination) -> RetryCause | None:
    """Return the row of the reason, read both as a pod's and as a container's."""
    reason = termination.reason
    if reason == "Evicted":
        own_fault = _passed_its_own_limit(termination)
        return RetryCause.LIMIT_EXCEEDED if own_fault else RetryCause.EVICTED
    if reason in _ENDINGS:
        return _ending_row(reason, termination.exit_code)
    return RetryCause.EVICTED if reason == "DisruptionTarget" else _stated(reason)


def _passed_its_own_limit(termination: Termination) -> bool:
    """Return whether the kubelet evicted the pod for its own use of storage.

    Only the message shows that. Older kubelets also write "exceeds its request" about pods that
    were evicted because their node ran low on a resource.
    """
    message = message_tail(termination.pod_message or termination.message).lower()
    return "exceed" in message and "low on resource" not in message


def _ending_row(reason: str, exit_code: int | None) -> RetryCause | None:
    """Return the row of a container's reason, given its exit code."""
    if reason == "OOMKilled":
        return RetryCause.OOM_KILLED if exit_code != 0 else None
    if reason == "Unknown":
        # The runtime lost the container, because its node was restarted.
        return RetryCause.AGENT_TRANSIENT if exit_code == 255 else None
    return _CONTAINER_WORDS.get(reason)


def _stated(word: str) -> RetryCause | None:
    row = _STATED_WORDS.get(word)
    # The kubelet's suffix is the name of a resource, in lower case; clusters define their own.
    if row is None and word.startswith("OutOf") and word[5:6].islower():
        return RetryCause.AGENT_TRANSIENT
    if row is None and word.startswith(WORKLOAD_EVICTED):
        return RetryCause.EVICTED
    return row


_RANKS = {cause: rank for rank, cause in enumerate(RetryCause)}
_ENDINGS = frozenset({"OOMKilled", "Unknown"})

_CONTAINER_WORDS = {
    "InvalidImageName": RetryCause.VALIDATION_ERROR,
    "ContainerStatusUnknown": RetryCause.AGENT_TRANSIENT,
    RUNTIME_BUSY: RetryCause.AGENT_TRANSIENT,
    "ErrImagePull": RetryCause.IMAGE_PULL_FAILURE,
    "ImagePullBackOff": RetryCause.IMAGE_PULL_FAILURE,
    "ErrImageNeverPull": RetryCause.IMAGE_PULL_FAILURE,
    "RegistryUnavailable": RetryCause.IMAGE_PULL_FAILURE,
    "ImageInspectError": RetryCause.IMAGE_PULL_FAILURE,
    "SignatureValidationFailed": RetryCause.IMAGE_PULL_FAILURE,
    "CrashLoopBackOff": RetryCause.START_FAILURE,
    "CreateContainerError": RetryCause.START_FAILURE,
    "CreateContainerConfigError": RetryCause.START_FAILURE,
    "StartError": RetryCause.START_FAILURE,
    "RunContainerError": RetryCause.START_FAILURE,
    "ContainerCannotRun": RetryCause.START_FAILURE,
    "RROUnsupported": RetryCause.START_FAILURE,
    "ImageVolumeMountFailed": RetryCause.START_FAILURE,
    "PreCreateHookError": RetryCause.START_FAILURE,
    "PreStartHookError": RetryCause.START_FAILURE,
    "PostStartHookError": RetryCause.START_FAILURE,
}
DEPENDENCY_FAILED = "DependencyFailed"
"""Condition of a session that was cancelled because a dependency cannot be met any more."""
WITHHELD = "SecretsWithheld"
"""Reason of a session that no executor got, because its secrets could not be handed over."""
_STATED_WORDS = {
    **_CONTAINER_WORDS,
    **{
        word: RetryCause.AGENT_TRANSIENT if elsewhere else RetryCause.START_FAILURE
        for word, elsewhere in NODE_REFUSALS.items()
    },
    "ValidationError": RetryCause.VALIDATION_ERROR,
    "Invalid": RetryCause.VALIDATION_ERROR,
    "BadRequest": RetryCause.VALIDATION_ERROR,
    "QuotaExceeded": RetryCause.QUOTA_EXCEEDED,
    "Preempting": RetryCause.PREEMPTED,
    "Preempted": RetryCause.PREEMPTED,
    "PreemptionByScheduler": RetryCause.PREEMPTED,
    f"{WORKLOAD_EVICTED}DueToPreempted": RetryCause.PREEMPTED,
    "Evicted": RetryCause.EVICTED,
    "EvictionByEvictionAPI": RetryCause.EVICTED,
    "DeletionByTaintManager": RetryCause.EVICTED,
    "DeletionByDeviceTaintManager": RetryCause.EVICTED,
    "DeletionByPodGC": RetryCause.EVICTED,
    "TerminationByKubelet": RetryCause.EVICTED,
    "LeaseExpired": RetryCause.AGENT_TRANSIENT,
    "ExecutorLost": RetryCause.AGENT_TRANSIENT,
    "PodVanished": RetryCause.AGENT_TRANSIENT,
    "PodDeleted": RetryCause.AGENT_TRANSIENT,
    WITHHELD: RetryCause.AGENT_TRANSIENT,
    "PodCreateFailed": RetryCause.AGENT_TRANSIENT,
    "NodeLost": RetryCause.AGENT_TRANSIENT,
    "DeadlineExceeded": RetryCause.DEADLINE_EXCEEDED,
    "OOMKilled": RetryCause.OOM_KILLED,
    "Unschedulable": RetryCause.SCHEDULER_TIMEOUT,
    "ImagePullTimeout": RetryCause.IMAGE_PULL_FAILURE,
    "StartTimeout": RetryCause.START_FAILURE,
}

# `limit_exceeded` is no eviction: the session is at fault, not the node.
_CONDITIONS = {
    RetryCause.OOM_KILLED: "OOMKilled",
    RetryCause.EVICTED: "Evicted",
    RetryCause.PREEMPTED: "Preempted",
    RetryCause.DEADLINE_EXCEEDED: "DeadlineExceeded",
    RetryCause.SCHEDULER_TIMEOUT: "Unschedulable",
}
RULE_CONDITIONS = frozenset(_CONDITIONS.values())
