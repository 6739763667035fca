"""What keeps an executor from its own cluster, or from a project's namespace: rights, a quota, a
namespace that is not there, or silence."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from executor.clock import boottime
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    NamespaceTransient,
    NamespaceTrouble,
    OwnTrouble,
    Transient,
)
from executor.drivers.kubernetes.pod_manifest import Manifest

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
PROBES_AT_ONCE = 8
SILENCE_SECONDS = 5.0
MOST_TOLD = 1000
"""Projects at one time; the server reads no more. Sessions of others come and go back."""
NOT_LOOKED_YET = "the cluster has not answered yet"


@dataclass(frozen=True)
class _Refused:
    """What could not be made for no fault of its own, and why."""

    body: Manifest
    why: ApiRefusal


class ClusterTrouble:
    """Remembers what was refused and since when nothing is heard. Any thread may read `text` and
    `of_projects`. `mended` is called when what was refused may work again."""

    def __init__(self, cluster: Cluster, mended: Callable[[], None]):
        self._cluster = cluster
        self._mended = mended
        self._silent_since: float | None = boottime() - SILENCE_SECONDS
        self._silence = NOT_LOOKED_YET
        # By project; "" is the trouble of all. Replaced, never changed: other threads read it.
        self._refused: Mapping[str, _Refused] = {}
        self._probes = asyncio.Semaphore(PROBES_AT_ONCE)

    @property
    def text(self) -> str:
        """Why nothing can be started at present; "" if nothing is wrong."""
        since = self._silent_since
        if since is not None and boottime() >= since + SILENCE_SECONDS:
            return self._silence
        refused = self._refused.get("")
        return str(refused.why) if refused else ""

    @property
    def of_projects(self) -> dict[str, str]:
        """Why nothing of a project can be started at present, by project."""
        told = {project: str(each.why) for project, each in self._refused.items() if project}
        return dict(islice(told.items(), MOST_TOLD))

    def refused(self, body: Manifest, refusal: ApiRefusal) -> None:
        """This pod, or what belongs to it, could not be made, for no fault of its own."""
        project = project_of(body) if _is_of_namespace(refusal) else ""
        if project not in self._refused:
            whose = f" OF PROJECT {project}" if project else ""
            log.error("NO LEASES%s ARE TAKEN: %s", whose, refusal)
        self._refused = {**self._refused, project: _Refused(refusal.object or body, refusal)}

    def made(self, body: Manifest) -> None:
        """A pod was made: what passes by itself has passed. Not so a quota, in which a smaller pod
        may have found room."""
        for project in ("", project_of(body)):
            known = self._refused.get(project)
            if known and not isinstance(known.why, NamespaceTrouble):
                self._forget(project)

    def forget(self, projects: Iterable[str]) -> None:
        """Nothing of these projects waits for this executor any more."""
        gone = set(projects)
        kept = {project: each for project, each in self._refused.items() if project not in gone}
        if len(kept) < len(self._refused):
            log.info("nothing waits any more of: %s", ", ".join(sorted(gone)))
            self._refused = kept

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
            await asyncio.gather(*(self._probe(*each) for each in self._refused.items()))

    async def _probe(self, project: str, refused: _Refused) -> None:
        kind = f"{refused.body['kind'].lower()}s"
        path = f"/api/v1/namespaces/{refused.body['metadata']['namespace']}/{kind}"
        try:
            async with self._probes:
                await self._cluster.create(path, refused.body, dry=True)
        except (OwnTrouble, Transient) as refusal:
            # What is wrong with one namespace is no trouble of all.
            if project or not _is_of_namespace(refusal):
                if known := self._refused.get(project):
                    news = _Refused(known.body, refusal)
                    self._refused = {**self._refused, project: news}
                return
        except ApiRefusal:
            pass  # it is the pod now that is refused, not the executor
        self._forget(project)

    def _forget(self, project: str) -> None:
        known = self._refused.get(project)
        if known is not None:
            whose = f" of project {project}" if project else ""
            log.warning("leases%s are taken again; it was: %s", whose, known.why)
            kept = {name: each for name, each in self._refused.items() if name != project}
            self._refused = kept
            self._mended()


def _is_of_namespace(refusal: ApiRefusal) -> bool:
    return isinstance(refusal, NamespaceTrouble | NamespaceTransient)


def project_of(body: Manifest) -> str:
    """The project that a pod is made for."""
    return str((body["metadata"].get("annotations") or {}).get(pod_names.PROJECT, ""))
