"""Remembers why an executor can start nothing in its cluster, or in a project's namespace.

The causes are missing rights, a quota, a missing namespace, or no answer.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from executor.clock import boottime
from executor.drivers.kubernetes import namespaces, pod_names
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
MAX_PROJECTS = 1000
"""Most projects to report at one time; the server reads no more.

Sessions of others come and go back.
"""
NOT_LOOKED_YET = "the cluster has not answered yet"


@dataclass(frozen=True)
class _Refused:
    """An object that could not be created for no fault of its own, and the refusal."""

    body: Manifest
    why: ApiRefusal


class ClusterTrouble:
    """The refusals of the cluster, and since when it is silent.

    Any thread may read `text` and `of_projects`. It calls `mended` when what was refused may work
    again.
    """

    def __init__(self, cluster: Cluster, mended: Callable[[], None]):
        self._cluster = cluster
        self._mended = mended
        self._silent_since: float | None = boottime() - SILENCE_SECONDS
        self._silence = NOT_LOOKED_YET
        # By project; "" is for all projects. The mapping is replaced, never changed, because other
        # threads read it.
        self._refused: Mapping[str, _Refused] = {}
        self._probes = asyncio.Semaphore(PROBES_AT_ONCE)

    @property
    def text(self) -> str:
        """Return why nothing can be started at present; "" if nothing is wrong."""
        since = self._silent_since
        if since is not None and boottime() >= since + SILENCE_SECONDS:
            return self._silence
        refused = self._refused.get("")
        return str(refused.why) if refused else ""

    @property
    def of_projects(self) -> dict[str, str]:
        """Return why nothing of a project can be started at present, by project."""
        troubles = {project: str(each.why) for project, each in self._refused.items() if project}
        return dict(islice(troubles.items(), MAX_PROJECTS))

    def refused(self, body: Manifest, refusal: ApiRefusal) -> None:
        """Note that this pod, or its Service or Secret, could not be created for no fault of its
        own."""
        project = project_of(body) if _is_of_namespace(refusal) else ""
        if project not in self._refused:
            whose = f" OF PROJECT {project}" if project else ""
            log.error("NO LEASES%s ARE TAKEN: %s", whose, refusal)
        self._refused = {**self._refused, project: _Refused(refusal.object or body, refusal)}

    def made(self, body: Manifest) -> None:
        """Note that a pod was created, which ends troubles that pass by themselves.

        A quota stays a trouble: the pod may be smaller than the one that was refused.
        """
        for project in ("", project_of(body)):
            known = self._refused.get(project)
            if known and not isinstance(known.why, NamespaceTrouble):
                self._forget(project)

    def forget(self, projects: Iterable[str]) -> None:
        """Forget the troubles of these projects: none of their sessions waits for this executor."""
        gone = set(projects)
        kept = {project: each for project, each in self._refused.items() if project not in gone}
        if len(kept) < len(self._refused):
            log.info(
                "no session waits any more in projects in trouble: %s", ", ".join(sorted(gone))
            )
            self._refused = kept

    def watch_answered(self) -> None:
        """Note that the watch of our pods has delivered something."""
        if self._silent_since is not None and self._silence != NOT_LOOKED_YET:
            log.warning("the cluster answers again")
        self._silent_since = None

    def watch_failed(self, refusal: ApiRefusal) -> None:
        """Note that the watch of our pods was refused."""
        ours = isinstance(refusal, OwnTrouble)
        if self._silent_since is None or self._silence == NOT_LOOKED_YET:
            log.log(
                logging.ERROR if ours else logging.WARNING, "cannot watch the pods: %s", refusal
            )
            self._silent_since = self._silent_since or boottime()
        if ours:
            self._silent_since = boottime() - SILENCE_SECONDS
        self._silence = f"the cluster does not show the executor its pods: {refusal}"

    async def probe(self) -> None:
        """Try in dry runs, for ever, what was refused, until it is accepted."""
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
            # Trouble with one namespace does not affect the others.
            if project or not _is_of_namespace(refusal):
                namespace = refused.body["metadata"]["namespace"]
                why = await namespaces.explained(self._cluster, refusal, namespace)
                if known := self._refused.get(project):
                    news = _Refused(known.body, why)
                    self._refused = {**self._refused, project: news}
                return
        except ApiRefusal:
            pass  # the pod itself is refused now, not the executor
        self._forget(project)

    def _forget(self, project: str) -> None:
        known = self._refused.get(project)
        if known is not None:
            whose = f" of project {project}" if project else ""
            log.warning("leases%s are taken again; the trouble was: %s", whose, known.why)
            kept = {name: each for name, each in self._refused.items() if name != project}
            self._refused = kept
            self._mended()


def _is_of_namespace(refusal: ApiRefusal) -> bool:
    return isinstance(refusal, NamespaceTrouble | NamespaceTransient)


def project_of(body: Manifest) -> str:
    """Return the project that a pod is made for."""
    return str((body["metadata"].get("annotations") or {}).get(pod_names.PROJECT, ""))
