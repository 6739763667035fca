"""Terminations read from pods: which observation is the evidence, and which facts it shows."""

from collections.abc import Iterable

from retry.evidence.pod_facts import TERMINAL_PHASES, pod_phase
from retry.evidence.termination import Termination, facts_of_pod

__all__ = ["first_end", "termination_from_pod"]


def termination_from_pod(pod: object, *, deleted_by_us: bool = False) -> Termination:
    """Return how a session ended, from its pod as the Kubernetes API gives it. Never raises.

    `pod` is any JSON value; its malformed parts are dropped. The pod need not have ended: one whose
    start failed shows why. `deleted_by_us` says that Reprise itself deleted it.
    """
    return Termination(**facts_of_pod(pod, deleted_by_us=deleted_by_us))


def first_end(observations: Iterable[object]) -> object | None:
    """Return the first observation of a pod, oldest first, in which it has ended; None if none has.

    That one is the evidence: a later deletion or collection of the pod does not change its end.
    """
    return next((pod for pod in observations if pod_phase(pod) in TERMINAL_PHASES), None)
