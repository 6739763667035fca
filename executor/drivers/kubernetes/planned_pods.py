"""Pods with planned nodes: a run is handed back if its cluster refuses them for too long."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import PodRun
from executor.drivers.protocol import UNSTARTED, Observation

PLAN = "plan"
"""The work of `hand_back` among the removals of a run."""


class PlannedPods:
    """Watches the runs whose nodes were planned.

    `patience` is the number of seconds for which a refusal may last. `abandon` ends a run once its
    pods are gone, and `pass_on` takes what its pods have shown meanwhile.
    """

    def __init__(
        self,
        patience: float,
        remover: PodRemover,
        *,
        abandon: Callable[[PodRun, Observation], Coroutine[Any, Any, None]],
        pass_on: Callable[[PodRun, Iterable[Observation]], None],
    ):
        self._patience = patience
        self._remover = remover
        self._abandon = abandon
        self._pass_on = pass_on

    def refused(self, run: PodRun, now: float) -> tuple[str, str] | None:
        """Return the refused node and the cluster's words if the run has to go back, else None."""
        refused = run.refused_plan
        if refused is None or not run.created:
            run.refused_since = None
            return None
        if run.refused_since is None:
            run.refused_since = now
        return refused if now - run.refused_since >= self._patience else None

    async def hand_back(self, run: PodRun, node: str, words: str) -> None:
        """Delete pods without a node, and end the run as not started. If one got a node, it stays.

        Until the first pod is deleted for sure, what the pods show is held back.
        """
        verdict = Observation(run.key, UNSTARTED, node, words)
        run.created, run.verdict = False, verdict
        if await self._remover.delete_unbound(run, run.names[0]):
            await self._abandon(run, verdict)
            return
        run.created, run.verdict, run.refused_since = True, None, None
        run.deleting.discard(PLAN)
        held_back, run.held_back = run.held_back, []
        self._pass_on(run, held_back)
