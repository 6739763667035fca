"""Pods with planned nodes: a run is handed back if its cluster refuses them for too long."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun, Refusal
from executor.drivers.protocol import UNSTARTED, Observation, facts

PLAN = "plan"
"""The work of `hand_back` among the removals of a run."""
_GRACE = 1
"""Seconds for pods that have a node. With 0 the cluster would not wait for the node to be done."""


class PlannedPods:
    """Watches the runs whose nodes were planned.

    `patience` is the number of seconds for which a refusal may last. `survey` looks at the nodes,
    `abandon` ends a run once its pods are gone, and `pass_on` takes what its pods have shown
    meanwhile.
    """

    def __init__(
        self,
        patience: float,
        remover: PodRemover,
        *,
        survey: Callable[[], Coroutine[Any, Any, None]],
        abandon: Callable[[PodRun, Observation], Coroutine[Any, Any, None]],
        pass_on: Callable[[PodRun, Iterable[Observation]], None],
    ):
        self._patience = patience
        self._remover = remover
        self._survey = survey
        self._abandon = abandon
        self._pass_on = pass_on

    def refused(self, run: PodRun, now: float) -> Refusal | None:
        """Return why the run has to go back: a refusal that has lasted too long; else None."""
        refusals = run.refusals if run.created else []
        run.refused_since = {each.pod: run.refused_since.get(each.pod, now) for each in refusals}
        lasting = (e for e in refusals if now - run.refused_since[e.pod] >= self._patience)
        return next(lasting, None)

    async def hand_back(self, run: PodRun, refusal: Refusal) -> None:
        """Delete the refused pod, then the others, and end the run as not started.

        If the refused pod got a node meanwhile, all stay. Until it is deleted for sure, what the
        pods show is held back.
        """
        verdict = Observation(run.key, UNSTARTED, refusal.node, refusal.words)
        run.created, run.verdict = False, verdict
        # A report of the nodes ends what the server knows of refusals, so it must not be older.
        await self._survey()
        if await self._remover.delete_unbound(run, refusal.pod):
            run.grace = run.grace or _GRACE
            await self._abandon(run, verdict)
            return
        run.created, run.verdict = True, None
        run.refused_since.pop(refusal.pod, None)
        run.deleting.discard(PLAN)
        held_back, run.held_back = run.held_back, []
        # A stop that was asked for meanwhile has waited, too.
        self._pass_on(run, held_back + (run.tracker.stop() if run.stopping else []))


def conclusion(run: PodRun, end: Observation) -> Observation:
    """Return how a run ends: by the verdict on it, if there is one, else by `end`.

    A run whose plan was refused, or whose agent has died before it had all it needs, is handed back
    only if no container of it has started and all its pods are gone for sure. Else it has failed,
    by no fault of its own.
    """
    verdict = run.verdict or end
    if verdict.status != UNSTARTED or not (verdict.node or run.reclaimed):
        return verdict
    tracker = run.tracker
    if not (tracker.began or tracker.unfenced):
        return verdict
    message = verdict.message
    if verdict.node:
        message = f"node {verdict.node}, planned for one of its pods, refused it: {message}"
    termination = facts(None, "PodCreateFailed", pod_message=message)
    if tracker.unfenced:
        termination["unfenced"] = True
    return Observation(run.key, "ERROR", "", message, termination)
