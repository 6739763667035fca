"""A cluster to run sessions on: a full one, or the API server of the tests with its played nodes.

Everything that is made there has a random suffix in its name, and goes when the tests are over.
"""

import asyncio
import base64
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from executor.drivers.kubernetes.access import Access
from executor.drivers.kubernetes.api import JSON_KIND, Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Exists, NotThere
from tests.kubernetes.apiserver import RBAC
from tests.kubernetes.manifests import EXECUTOR_RBAC, documents
from tests.waiting import until

GROUP = "rbac.authorization.k8s.io"
KUBECONFIG, IMAGE = "REPRISE_TEST_KUBECONFIG", "REPRISE_TEST_IMAGE"
MISSING = (
    f"no full cluster: point {KUBECONFIG} at the kubeconfig of a cluster admin, and {IMAGE} at an"
    " image with sh and python3 that its nodes have or may pull"
)
MERGE = "application/merge-patch+json"
TOKEN_SECONDS = 4 * 3600
PATIENCE_SECONDS = 300.0

Object = dict[str, Any]


class TestCluster:
    """`real`: containers run there. `patience`: seconds in which anything should have happened."""

    __test__ = False

    def __init__(self, kubeconfig: Path, directory: Path, *, real: bool, image: str):
        self.real = real
        self.image = image
        self.patience = PATIENCE_SECONDS if real else 90.0
        self.name = f"rt-{uuid.uuid4().hex[:8]}"
        self.template = f"{self.name}-{{project}}"
        self.namespace = f"{self.name}-default--tests"
        self.priority_class = f"{self.name}-high"
        self.kubeconfig = directory / "executor.kubeconfig"
        self._admin = kubeconfig
        self._runner = asyncio.Runner()
        self._cluster = Cluster(Access(kubeconfig))

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "") -> Object:
        """One request as the admin. Raises `ApiRefusal`."""
        asked = self._cluster.call(method, path, body=body, kind=kind or JSON_KIND)
        return self._runner.run(asked)

    def set_up(self) -> None:
        for name in (self.name, self.namespace):
            self._make("/api/v1/namespaces", {"metadata": {"name": name}})
        named = {"metadata": {"name": self.name}}
        self._make(f"/api/v1/namespaces/{self.name}/serviceaccounts", named)
        self._grant()
        named = {"metadata": {"name": self.priority_class}}
        high = {**named, "value": 1000, "preemptionPolicy": "Never"}
        self._make("/apis/scheduling.k8s.io/v1/priorityclasses", high)
        self._write_kubeconfig()

    def tear_down(self) -> None:
        """Also what the executor would have: it may have been killed."""
        until(self._no_pods, seconds=self.patience)
        for path in (
            f"{RBAC}/clusterrolebindings/{self.name}",
            f"{RBAC}/clusterroles/{self.name}",
            f"{RBAC}/clusterroles/{self.name}-sessions",
            f"/apis/scheduling.k8s.io/v1/priorityclasses/{self.priority_class}",
            f"/api/v1/namespaces/{self.namespace}",
            f"/api/v1/namespaces/{self.name}",
        ):
            with suppress(NotThere):
                self.call("DELETE", path)
        self._runner.run(self._cluster.close())
        self._runner.close()

    def pods(self) -> list[Object]:
        items: list[Object] = self.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return items

    def make(self, kind: str, name: str, **fields: Any) -> None:
        """An object of the core API in the namespace of the sessions."""
        path = f"/api/v1/namespaces/{self.namespace}/{kind}"
        self._make(path, {"metadata": {"name": name}, **fields})

    def _make(self, path: str, body: Object) -> None:
        with suppress(Exists):
            self.call("POST", path, body)

    def _grant(self) -> None:
        """The roles of deploy/kubernetes under names of this run's own: one everywhere, one where
        the sessions are."""
        everywhere, sessions = self._roles()
        account = {"kind": "ServiceAccount", "name": self.name, "namespace": self.name}
        for name, where in ((everywhere, ""), (sessions, f"/namespaces/{self.namespace}")):
            reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
            bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [account]}
            kind = "rolebindings" if where else "clusterrolebindings"
            self._make(f"{RBAC}{where}/{kind}", bound)

    def _roles(self) -> list[str]:
        names = []
        for each in documents(EXECUTOR_RBAC):
            if each["kind"] == "ClusterRole":
                names.append(self._named(each["metadata"]["name"]))
                body = {"metadata": {"name": names[-1]}, "rules": each["rules"]}
                self._make(f"{RBAC}/clusterroles", body)
        return names

    def _named(self, name: str) -> str:
        return name.replace("reprise-executor", self.name)

    def _no_pods(self) -> bool:
        left = self.pods()
        for pod in left:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            with suppress(ApiRefusal):
                self.call("PATCH", path, {"metadata": {"finalizers": None}}, kind=MERGE)
                self.call("DELETE", path, {"gracePeriodSeconds": 0})
        return not left

    def _write_kubeconfig(self) -> None:
        """The admin's cluster with a token of the executor's own, which has its rights only."""
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/{self.name}/token"
        asked = {"spec": {"expirationSeconds": TOKEN_SECONDS, "audiences": []}}
        token = self.call("POST", path, asked)["status"]["token"]
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": self._admins_cluster()}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        self.kubeconfig.write_text(json.dumps(text))

    def _admins_cluster(self) -> Object:
        config = yaml.safe_load(self._admin.read_text())
        contexts = {each["name"]: each["context"] for each in config["contexts"]}
        clusters = {each["name"]: dict(each["cluster"]) for each in config["clusters"]}
        found: Object = clusters[contexts[config["current-context"]]["cluster"]]
        if file := found.pop("certificate-authority", None):
            data = (self._admin.parent / file).read_bytes()
            found["certificate-authority-data"] = base64.b64encode(data).decode()
        return found


def named_cluster() -> tuple[Path, str] | None:
    """The full cluster that the environment names: the admin's kubeconfig, and an image."""
    kubeconfig, image = os.environ.get(KUBECONFIG), os.environ.get(IMAGE)
    return (Path(kubeconfig).absolute(), image) if kubeconfig and image else None
