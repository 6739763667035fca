"""Reasons of a cluster that mean something else with some of its messages."""

import re

WORKLOAD_EVICTED = "WorkloadEvicted"
"""The prefix of the reasons of Kueue's evictions; the cause follows it."""
RUNTIME_BUSY = "RuntimeBusy"
"""The reason that stands for a node whose runtime is not done with an earlier call."""

_NOT_STARTED = frozenset(
    {"StartError", "RunContainerError", "CreateContainerError", "ContainerCannotRun"}
)
_STOPPED = frozenset({"StoppedByKueue"})
_BUSY = "failed to reserve container name|name is (already )?reserved|context deadline exceeded"
_MEANINGS = (
    # The limit is too low for the runtime itself, which so never starts the command.
    (_NOT_STARTED, re.compile("OOM-killed"), "OOMKilled"),
    # A call of the kubelet took too long; its next ones find the name taken until it has ended.
    (frozenset({"CreateContainerError"}), re.compile(_BUSY), RUNTIME_BUSY),
    # Older versions of Kueue have one reason for all that they stop.
    (_STOPPED, re.compile("^Preempted to "), f"{WORKLOAD_EVICTED}DueToPreempted"),
    (_STOPPED, re.compile(""), WORKLOAD_EVICTED),
)


def meant(reason: str, message: str) -> str:
    """Return the reason that says what is meant: another one, if the message shows that."""
    for reasons, words, better in _MEANINGS:
        if reason in reasons and words.search(message):
            return better
    return reason
