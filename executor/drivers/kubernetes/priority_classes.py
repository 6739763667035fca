"""The PriorityClasses of the cluster that stand for priority classes of sessions."""

import asyncio
import logging
from collections.abc import Mapping

from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, NotThere, Transient
from executor.drivers.kubernetes.pod_manifest import Manifest

log = logging.getLogger(__name__)

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
LOOK_SECONDS = 60.0
NEVER = "Never"
_DEFAULT_POLICY = "PreemptLowerPriority"


class PriorityClasses:
    """Gives pods the PriorityClass that `names` has for the class of their session.

    Only Reprise makes room for sessions. So a PriorityClass whose pods preempt others is left out,
    and so is one that is missing. The log says so once. Any thread may read `warnings`.
    """

    def __init__(self, cluster: Cluster, names: Mapping[str, str]):
        self._cluster = cluster
        self._names = names
        # By the name of the PriorityClass. The mapping is replaced, never changed, because other
        # threads read it.
        self._problems: Mapping[str, str] = {}

    @property
    def warnings(self) -> list[str]:
        """Return which PriorityClasses are left out at present, and why."""
        return [_left_out(name, problem) for name, problem in sorted(self._problems.items())]

    async def keep(self) -> None:
        """Look at the PriorityClasses at once and then every minute, for ever."""
        while self._names:
            for name in sorted({*self._names.values()}):
                self._note(name, await self._problem(name))
            await asyncio.sleep(LOOK_SECONDS)

    def given(self, priority_class: str, pod: Manifest) -> Manifest:
        """Return the pod with its PriorityClass; the pod itself if it gets none.

        Its `preemptionPolicy` lets the API server refuse the pod if the PriorityClass has become
        another one since the last look.
        """
        name = self._name(priority_class, pod)
        if not name or name in self._problems:
            return pod
        spec = {**pod["spec"], "priorityClassName": name, "preemptionPolicy": NEVER}
        return {**pod, "spec": spec}

    def left_out(self, priority_class: str, pod: Manifest) -> str:
        """Return why a pod did not get its PriorityClass; "" if it did or has none."""
        name = self._name(priority_class, pod)
        return f"without PriorityClass {name}: {why}" if (why := self._problems.get(name)) else ""

    def refused(self, priority_class: str, refusal: ApiRefusal) -> None:
        """Note that the API server takes a pod only without its PriorityClass.

        Until the next look no pod gets it. The refusal has the name of the pod, which other
        sessions must not see: only the log has it.
        """
        name = self._names[priority_class]
        if name not in self._problems:
            self._note(name, "the cluster refuses pods with it", f": {refusal}")

    def _name(self, priority_class: str, pod: Manifest) -> str:
        # A user has named one if an operator has allowed it.
        own = pod["spec"].get("priorityClassName")
        return "" if own else self._names.get(priority_class, "")

    async def _problem(self, name: str) -> str:
        """Return why this PriorityClass cannot be used; "" if it can."""
        try:
            found = await self._cluster.call("GET", f"{PATH}/{name}")
        except NotThere:
            return "the cluster has no such PriorityClass"
        except Transient:
            return self._problems.get(name, "")
        except ApiRefusal as refusal:
            return f"the executor cannot read it: {refusal}"
        policy = found.get("preemptionPolicy") or _DEFAULT_POLICY
        return "" if policy == NEVER else f"its preemptionPolicy is {policy}; it must be {NEVER}"

    def _note(self, name: str, problem: str, details: str = "") -> None:
        before = self._problems.get(name, "")
        others = {other: why for other, why in self._problems.items() if other != name}
        self._problems = {**others, name: problem} if problem else others
        if problem and problem != before:
            log.warning("%s%s", _left_out(name, problem), details)
        elif before and not problem:
            log.info("pods get PriorityClass %s again", name)


def _left_out(name: str, problem: str) -> str:
    return f"pods are made without PriorityClass {name}: {problem}"
