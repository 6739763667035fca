"""A real agent with the Kubernetes driver, and what tests ask of its pods."""

import urllib.error
from pathlib import Path
from typing import Any

from executor.drivers.kubernetes.pod_names import SESSION
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.apiserver import ApiServer
from tests.unit.executor.conftest import AgentProcess
from tests.waiting import until

PROJECT = "default/tests"
NAMESPACE = "reprise-default--tests"

Object = dict[str, Any]


class PodAgent(AgentProcess):
    """`options` are those of every start."""

    def __init__(self, url: str, directory: Path, api: ApiServer, kubeconfig: Path):
        super().__init__(url, directory)
        api.namespace(NAMESPACE)
        self.api = api
        self.kubeconfig = kubeconfig
        self.options = ["--relist-seconds", "2", "--watch-seconds", "20"]

    def start(self, *options: str, **environ: str) -> None:
        given = ["--driver", "kubernetes", "--kubeconfig", str(self.kubeconfig), *self.options]
        super().start(*given, *options, **environ)

    def pods_of(self, session: FakeSession) -> list[Object]:
        found = self.api.pods()
        return [pod for pod in found if pod["metadata"]["labels"].get(SESSION) == session.id]

    def pod_of(self, session: FakeSession) -> Object:
        """Its only pod, once it is there."""
        until(lambda: bool(self.pods_of(session)))
        (pod,) = self.pods_of(session)
        return pod

    def bind(self, pod: Object, node: str) -> None:
        """As a scheduler would."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        self.api.call("POST", f"{path_of(pod)}/binding", body)

    def set_status(self, pod: Object, **status: Any) -> None:
        """As a kubelet would."""
        kind = "application/strategic-merge-patch+json"
        self.api.call("PATCH", f"{path_of(pod)}/status", {"status": status}, kind=kind)


def submit(server: FakeServer, script: str, **spec: Any) -> FakeSession:
    environ = {"REPRISE_PROJECT": PROJECT, **spec.pop("environ", {})}
    return server.submit("sh", "-c", script, image="busybox", environ=environ, **spec)


def path_of(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def purge(api: ApiServer) -> None:
    """No pod is left to the next test."""

    def clean() -> bool:
        left = api.pods()
        for pod in left:
            _remove(api, pod)
        return not left

    until(clean)


def _remove(api: ApiServer, pod: Object) -> None:
    without = {"metadata": {"finalizers": None}}
    try:
        api.call("PATCH", path_of(pod), without, kind="application/merge-patch+json")
        api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 0})
    except urllib.error.HTTPError:
        return  # it changes at this moment, or has gone
