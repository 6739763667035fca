"""Pods of runs that the agent does not know, or has let go."""

import logging

from reprise_client.wire import LeaseKey

from executor.clock import boottime
from executor.drivers.kubernetes.api_refusals import Object
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_run import may_go_on
from executor.drivers.protocol import FOUND, Emit, Observation

log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 600.0


class StrayPods:
    """Calls `emit` with each run that was found.

    All calls but `place_of` are on the loop that serves, in the thread `pods`.
    """

    def __init__(self, emit: Emit):
        self._emit = emit
        self._found: dict[LeaseKey, Place] = {}
        self._let_go: dict[LeaseKey, float] = {}

    def see(self, key: LeaseKey, pod: Object) -> None:
        """Report a pod of a run that this agent does not know.

        An earlier agent started it, or its files are lost. The server decides whether it may go on.
        """
        if key in self._found or key in self._let_go or not may_go_on(pod):
            return
        if place := Place.of_pod(pod):
            log.info("found existing pods of session %s", key)
            self._found[key] = place
            self._emit(Observation(key, FOUND))

    def place_of(self, key: LeaseKey) -> Place | None:
        """Return the place of a run that was found, or None. Any thread may call it."""
        return self._found.get(key)

    def adopt(self, key: LeaseKey) -> None:
        """Note that the agent knows the run from now on."""
        self._found.pop(key, None)

    def let_go(self, key: LeaseKey) -> None:
        """Note that the agent has forgotten the run, and wants none of its pods."""
        self._let_go[key] = boottime()

    def came_late(self, key: LeaseKey, seen_at: float) -> bool:
        """Return whether a pod that was there at that moment is of a run let go before."""
        return self._let_go.get(key, seen_at) < seen_at

    def forget_old(self, now: float) -> None:
        """Forget what was let go long ago: nothing of it can appear any more."""
        for key, moment in list(self._let_go.items()):
            if now > moment + REMEMBERED_SECONDS:
                del self._let_go[key]
