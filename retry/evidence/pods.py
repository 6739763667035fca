"""A termination read from pods: which observation is the evidence, and what it says."""

from collections.abc import Iterable

from retry.evidence.pod_facts import TERMINAL_PHASES, pod_phase
from retry.evidence.termination import Termination, facts_of_pod

__all__ = ["first_end", "termination_from_pod"]


def termination_from_pod(pod: object, *, deleted_by_us: bool = False) -> Termination:
    """Read how a session ended out of its pod, as the Kubernetes API gives it. Never raises.

    `pod` is any JSON value; its malformed parts are dropped. It need not have ended: one whose
    start failed says why. `deleted_by_us` says that a deletion of it was our own wish.
    """
    return Termination(**facts_of_pod(pod, deleted_by_us=deleted_by_us))


def first_end(observations: Iterable[object]) -> object | None:
    """Give the first of a pod's observations, oldest first, in which it has ended; None if none.

    That one is the evidence: a pod that is deleted or collected later has not ended otherwise.
    """
    return next((pod for pod in observations if pod_phase(pod) in TERMINAL_PHASES), None)
