"""Whether the cluster adds tolerations to pods that ask for extended resources, such as GPUs.

An admission plugin of the API server does so (`ExtendedResourceToleration`), or a webhook like it.
"""

import asyncio
import logging
from itertools import islice

from base.podspec.extended import AUTO, ON, is_extended
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal
from executor.drivers.kubernetes.nodes import NodeSurvey
from executor.drivers.kubernetes.run_book import RunBook

log = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
MOST_NAMESPACES = 8
"""Most namespaces of runs to try at once."""
RESOURCE = "reprise.dev/probe"
"""An extended resource that no node has, and no quota names."""
_FIRST = "default"
_WARNING = (
    "it is not known whether this cluster adds tolerations for extended resources, so no session"
    " gets a node with the taint {}: say --assume-extended-resource-tolerations on or off"
)
_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_AMOUNTS = {"cpu": "1m", "memory": "1Mi", RESOURCE: "1"}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "reprise-probe-"},
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "probe",
                "image": "reprise.dev/probe",
                "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
                "securityContext": _SECURITY,
            }
        ],
    },
}


class ExtendedTolerations:
    """Finds out whether pods get these tolerations, unless the `mode` says it.

    It creates a pod in a dry run. That needs a namespace in which the executor may create pods, so
    it also tries those of its `runs`. Until one answers, it does not count on tolerations. Any
    thread may read `added` and `warnings`.
    """

    def __init__(self, cluster: Cluster, mode: str, runs: RunBook, survey: NodeSurvey):
        self._cluster = cluster
        self._runs = runs
        self._survey = survey
        self._found = None if mode == AUTO else mode == ON

    @property
    def added(self) -> bool:
        """Return whether pods surely get tolerations for the extended resources they ask for."""
        return self._found is True

    @property
    def warnings(self) -> list[str]:
        """Return that it is not known, if that keeps sessions from nodes."""
        if self._found is not None:
            return []
        keys = sorted(filter(is_extended, self._survey.taints()))
        return [_WARNING.format(key) for key in keys[:1]]

    async def keep(self) -> None:
        """Try at once, and then three times a minute until it is known."""
        while self._found is None:
            known = dict.fromkeys(run.namespace for run in self._runs)
            for namespace in [_FIRST, *islice(known, MOST_NAMESPACES)]:
                self._found = await self._look(namespace)
                if self._found is not None:
                    words = "adds" if self._found else "does not add"
                    log.info("the cluster %s tolerations for extended resources", words)
                    return
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, namespace: str) -> bool | None:
        """Return whether the cluster adds the toleration to a pod; None if it does not say."""
        try:
            path = f"/api/v1/namespaces/{namespace}/pods"
            made = await self._cluster.create(path, _POD, dry=True)
        except ApiRefusal as refusal:
            log.debug("a dry run of a pod in namespace %s: %s", namespace, refusal)
            return None
        given = made["spec"].get("tolerations") or ()
        return any(each.get("key") == RESOURCE for each in given)
