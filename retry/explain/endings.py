"""The end of a run in a sentence, from the facts in a decision's trace."""

from collections.abc import Mapping

from retry.evidence.ended import Ended
from retry.evidence.node_refusals import REFUSED
from retry.explain.step_facts import Facts, texts


def ending(cause: str, facts: Facts) -> str:
    """Describe the end, without a full stop: `The container main was OOM-killed on node n1`."""
    sentence = _of_the_platform(facts) if cause in _BY_THE_PLATFORM else ""
    if not sentence:
        sentence = _ENDINGS.get(cause, "The session failed")
        if cause == "kernel_nonzero_exit" and facts.get("exit_code") is not None:
            sentence += f" with code {facts['exit_code']}"
        if facts.get("node") and cause in _ENDED_ON_A_NODE:
            sentence += f" on node {facts['node']}"
    for name, words in _names(facts).items():
        sentence = sentence.replace(name, words)
    return sentence


def ending_message(ended: Ended) -> str:
    """Describe the end of a run, with the message of the cluster or else of the workload."""
    termination = ended.termination
    message = (termination.pod_message or termination.message).strip().rstrip(". ")
    sentence = ending(ended.cause.value, ended.facts)
    return f"{sentence}: {message}" if message else sentence


def _names(facts: Facts) -> Mapping[str, str]:
    rank = facts.get("rank")
    of_rank = "" if rank is None else f" of rank {rank}"
    called = f" {facts['container']}" if facts.get("container") else ""
    on_node = f" on node {facts['node']}" if facts.get("node") else ""
    return {
        "{container}": f"The container{called}{of_rank}",
        "{run}": "The run" if rank is None else f"Rank {rank}",
        "{pod}": f"The pod{of_rank}{on_node}",
        "{node}": f"Node {facts['node']}" if facts.get("node") else "Its node",
        "{reason}": f" ({facts['reason']})" if facts.get("reason") else "",
    }


def _of_the_platform(facts: Facts) -> str:
    """Describe what the platform did, if a fact shows it; of several, the first."""
    words = {*texts(facts, "conditions"), str(facts.get("reason"))}
    if facts.get("lease_expired"):
        words.add("LeaseExpired")
    return next((sentence for word, sentence in _PLATFORM.items() if word in words), "")


_BY_THE_PLATFORM = frozenset({"agent_transient", "start_failure"})
_PLATFORM = {
    "LeaseExpired": "The platform lost the run",
    "ExecutorLost": "The platform lost the run",
    REFUSED: "{node} refused the pod{reason}",
    "NodeShutdown": "{node} was shut down",
    "NodeLost": "{node} does not answer",
    "PodDeleted": "{pod} was deleted by somebody",
    "PodVanished": "{pod} has vanished",
    "PodCreateFailed": "The pod could not be created",
}
_ENDINGS = {
    "dependency_failed": "A dependency of the session cannot be met any more",
    "user_cancelled": "The session was cancelled",
    "validation_error": "The specification was rejected",
    "quota_exceeded": "The quota refused the session",
    "preempted": "{run} was preempted",
    "evicted": "{run} was evicted",
    "limit_exceeded": "{run} was evicted because it exceeded its own limit",
    "agent_transient": "The platform lost the run or could not take it",
    "deadline_exceeded": "{run} exceeded its deadline",
    "oom_killed": "{container} was OOM-killed",
    "image_pull_failure": "The image could not be pulled",
    "start_failure": "{container} could not be started",
    "scheduler_timeout": "No node was found in time",
    "kernel_nonzero_exit": "{container} exited",
    "unknown": "No recorded fact explains the end",
}
_ENDED_ON_A_NODE = frozenset(_ENDINGS) - {
    "user_cancelled",
    "dependency_failed",
    "validation_error",
    "quota_exceeded",
    "scheduler_timeout",
    "unknown",
}
