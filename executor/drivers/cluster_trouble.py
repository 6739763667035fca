"""What keeps an executor from its own cluster: rights, a namespace, or silence."""

import asyncio
import logging

from executor.clock import boottime
from executor.drivers.api_refusals import ApiRefusal, OwnTrouble, Transient
from executor.drivers.kubernetes_api import Cluster
from executor.drivers.pod_manifest import Manifest

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
SILENCE_SECONDS = 5.0
NOT_LOOKED_YET = "the cluster has not answered yet"


class ClusterTrouble:
    """Remembers what was refused and since when nothing is heard. Any thread may read `text`."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._silent_since: float | None = boottime() - SILENCE_SECONDS
        self._silence = NOT_LOOKED_YET
        self._refused_pod: Manifest | None = None
        self._refused_why = ""

    @property
    def text(self) -> str:
        """Why nothing can be started at present; "" if nothing is wrong."""
        since = self._silent_since
        if since is not None and boottime() >= since + SILENCE_SECONDS:
            return self._silence
        return self._refused_why

    def refused(self, body: Manifest, refusal: OwnTrouble) -> None:
        """This pod could not be made, for no fault of its own."""
        if not self._refused_why:
            log.error("NO LEASES ARE TAKEN: %s", refusal)
        self._refused_pod, self._refused_why = body, str(refusal)

    def heard(self) -> None:
        """The watch of our pods says something."""
        if self._silent_since is not None and self._silence != NOT_LOOKED_YET:
            log.warning("the cluster answers again")
        self._silent_since = None

    def not_heard(self, refusal: ApiRefusal) -> None:
        """The watch of our pods was refused."""
        ours = isinstance(refusal, OwnTrouble)
        if self._silent_since is None or self._silence == NOT_LOOKED_YET:
            log.log(logging.ERROR if ours else logging.WARNING, "watching pods: %s", refusal)
            self._silent_since = self._silent_since or boottime()
        if ours:
            self._silent_since = boottime() - SILENCE_SECONDS
        self._silence = f"the cluster does not let us see our pods: {refusal}"

    async def probe(self) -> None:
        """For ever: tries without effect what was refused, until it is not."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            body = self._refused_pod
            if body is None:
                continue
            path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods"
            try:
                await self._cluster.create(path, body, dry=True)
            except (OwnTrouble, Transient) as refusal:
                self._refused_why = str(refusal)
                continue
            except ApiRefusal:
                pass  # it is the pod now that is refused, not the executor
            log.warning("leases are taken again; it was: %s", self._refused_why)
            self._refused_pod, self._refused_why = None, ""
