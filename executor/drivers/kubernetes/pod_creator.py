"""Makes the pods of one session, one after the other, with all that belongs to them."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from executor.clock import boottime
from executor.drivers.kubernetes import pod_manifest
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    Invalid,
    NamespaceTransient,
    Object,
    OwnTrouble,
    TooMany,
    Transient,
)
from executor.drivers.kubernetes.object_maker import Conditions, ObjectMaker, Unwanted
from executor.drivers.kubernetes.pod_manifest import Manifest
from executor.drivers.kubernetes.pod_run import PodRun, key_of_pod
from executor.drivers.kubernetes.pod_secrets import SecretGiver
from executor.drivers.kubernetes.pod_settings import PodSettings
from executor.drivers.kubernetes.priority_classes import PriorityClasses
from executor.drivers.kubernetes.trouble import ClusterTrouble
from executor.drivers.protocol import UNSTARTED, Emit, Observation, Order, facts
from executor.failpoints import failpoint

log = logging.getLogger(__name__)

STOPPING = "the executor is stopping"
NEVER_MADE = "its agent was stopped or killed before its pods were created"
WORTH_TELLING = 3
"""Tries to make a pod after which its session says why it waits."""


class PodCreator:
    """`saw` is called with each pod that was made, `emit` with why a session waits for its pod.

    All calls are on the loop that serves, in the thread `pods`.
    """

    def __init__(
        self,
        settings: PodSettings,
        cluster: Cluster,
        calls: asyncio.Semaphore,
        troubles: ClusterTrouble,
        classes: PriorityClasses,
        *,
        saw: Callable[[PodRun, Object], None],
        emit: Emit,
    ):
        self._executor = settings.executor
        self._settled_at = boottime() + 2 * settings.answer_seconds
        """When no call of an earlier agent can take effect any more."""
        self._maker = ObjectMaker(
            cluster,
            calls,
            create_namespaces=settings.create_namespaces,
            settles_in=2 * settings.answer_seconds,
        )
        self._secrets = SecretGiver(cluster, calls, settings.executor)
        self._troubles = troubles
        self._classes = classes
        self._saw = saw
        self._emit = emit
        self.retiring = False
        """Nothing more is begun: the agent is stopping."""

    async def create(
        self, run: PodRun, order: Order, bodies: Sequence[Manifest]
    ) -> Observation | None:
        """Make all pods of a run; if one could not be made, return what becomes of the run."""
        try:
            for body in bodies:
                if run.stopping:
                    return _stopped(run)
                if self._gives_up(run):
                    raise Unwanted(STOPPING)
                pod = await self._create_pod(run, order, body)
                if order.secrets and body is bodies[0]:
                    await self._secrets.give(run, order, pod)
                if len(bodies) > 1 and body is bodies[0]:
                    await self._create_service(run, order)
        except ApiRefusal as refusal:
            return self._refused(run, body, refusal)
        except Exception as error:
            log.exception("cannot create the pods of session %s", run.key)
            return _not_created(run, error)
        return None

    def _refused(self, run: PodRun, body: Manifest, refusal: ApiRefusal) -> Observation:
        """Return the end of a run for which a pod could not be made, and is not there."""
        passes = isinstance(refusal, Transient) and not isinstance(refusal, TooMany)
        blameless = passes or isinstance(refusal, OwnTrouble | Unwanted)
        if blameless and run.stopping:
            return _stopped(run)
        if blameless and self._gives_up(run):
            return Observation(run.key, UNSTARTED, message=STOPPING)
        if not blameless or isinstance(refusal, Unwanted):
            return _not_created(run, refusal)
        self._troubles.refused(body, refusal)
        return Observation(run.key, UNSTARTED, message=str(refusal))

    async def find(self, run: PodRun) -> Observation | None:
        """Find the pods of a run that an earlier agent was to create; none are created any more.

        If one is not there, return what becomes of the run. A pod of ours that existed cannot have
        gone, since our finalizer holds it: so it was never created.
        """
        while run.tracker.unseen and (left := self._settled_at - boottime()) > 0:
            await asyncio.wait([run.next_change], timeout=left)
        for name in run.tracker.unseen:
            named = {"kind": "Pod", "metadata": {"namespace": run.namespace, "name": name}}
            pod = await self._maker.find(run.path(name), named, self._settled_at)
            if pod is not None and key_of_pod(pod) == run.key:
                self._saw(run, pod)
        if not run.tracker.unseen:
            return None
        if run.stopping:
            return _stopped(run)
        return Observation(run.key, UNSTARTED, message=NEVER_MADE)

    def _gives_up(self, run: PodRun) -> bool:
        """Return whether the agent is stopping and nothing of the run was seen."""
        return self.retiring and not run.known

    async def _create_pod(self, run: PodRun, order: Order, body: Manifest) -> Object:
        name = body["metadata"]["name"]
        failpoint("executor.before_pod_create")
        given = self._classes.given(order.priority_class, body)
        try:
            pod = await self._make_pod(run, given)
        except Invalid as refusal:
            if given is body:
                raise
            # If the class is not the reason, the pod is refused again.
            given = body
            pod = await self._make_pod(run, given)
            self._classes.refused(order.priority_class, refusal)
        failpoint("executor.after_pod_create")
        self._troubles.made(body)
        if key_of_pod(pod) != run.key:
            raise Exists(f"there is another pod {name} in namespace {run.namespace}")
        if given is body and (why := self._classes.left_out(order.priority_class, body)):
            self._emit_waiting(run, f"its pod was made {why}")
        self._saw(run, pod)
        return pod

    async def _make_pod(self, run: PodRun, body: Manifest) -> Object:
        name = body["metadata"]["name"]
        path = f"/api/v1/namespaces/{run.namespace}/pods"
        conditions = self._conditions(run, body, lambda: run.lacks(name))
        return await self._maker.make(path, run.path(name), body, conditions)

    async def _create_service(self, run: PodRun, order: Order) -> None:
        owner = run.known[run.names[0]].pod
        body = pod_manifest.headless_service(
            order, executor=self._executor, namespace=run.namespace, owner=owner
        )
        path, name = f"/api/v1/namespaces/{run.namespace}/services", body["metadata"]["name"]
        # It goes with the pod that owns it.
        conditions = self._conditions(run, body, lambda: True, must_know=False)
        service = await self._maker.make(path, f"{path}/{name}", body, conditions)
        if key_of_pod(service) != run.key:
            raise Exists(f"there is another service {name} in namespace {run.namespace}")

    def _conditions(
        self, run: PodRun, body: Manifest, wanted: Callable[[], bool], *, must_know: bool = True
    ) -> Conditions:
        """While the lease lives nobody gives up on what a cluster cannot do for a while."""

        def failed(refusal: Transient, tries: int) -> None:
            # A quota that many write at one time, and an account that is yet to come, are none.
            lasts = tries >= WORTH_TELLING
            if isinstance(refusal, TooMany) or (
                isinstance(refusal, NamespaceTransient) and not lasts
            ):
                return
            if body["kind"] == "Pod":
                self._troubles.refused(body, refusal)
            if lasts:
                self._emit_waiting(run, f"its pod could not be made yet: {refusal}")

        async def rest(seconds: float) -> None:
            await asyncio.wait([run.next_change], timeout=seconds)

        def still_wanted() -> bool:
            return wanted() and not run.stopping and not self._gives_up(run)

        return Conditions(still_wanted, failed, rest, must_know)

    def _emit_waiting(self, run: PodRun, message: str) -> None:
        if message != run.waits_for:
            run.waits_for = message
            self._emit(Observation(run.key, "PREPARING", "", message))


def _not_created(run: PodRun, refusal: Exception) -> Observation:
    reason = "Invalid" if isinstance(refusal, Invalid) else "PodCreateFailed"
    message = f"its pod could not be created: {refusal}"
    termination = facts(None, reason, pod_message=message)
    return Observation(run.key, "ERROR", "", message, termination, run.stopping)


def _stopped(run: PodRun) -> Observation:
    termination = facts(None)
    return Observation(
        run.key, "ERROR", "", "ended before it was started", termination, stopped=True
    )


def without_secrets(run: PodRun) -> Observation:
    """Return the end of a run whose secrets have died with an agent before its container ran."""
    message = "its agent died before its pod had its secrets"
    return Observation(run.key, UNSTARTED, message=message)
