"""deploy/kubernetes: an API server takes it, and the executor needs the rights that it gives."""

import json
import subprocess
import urllib.error
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_manifest import manifests
from executor.drivers.protocol import Order
from executor.runs import RunFiles
from tests.executor_fake import FakeServer
from tests.kubernetes.agent import NAMESPACE, PodAgent, submit
from tests.kubernetes.apiserver import ADMIN, EXECUTOR_USER, ApiServer
from tests.kubernetes.manifests import (
    EXECUTOR_RBAC,
    Object,
    granted,
    kubectl,
    kustomizations,
    objects,
    pods_of,
    rendered,
)
from tests.kubernetes.pod_security import baseline_problems, restricted_problems
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes")]

KEY = LeaseKey("01890000-0000-7000-8000-000000000000", 1)
IDLE = {"name": "main", "image": "busybox"}


@pytest.fixture(scope="module")
def admin(api: ApiServer) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`kubectl` as the cluster's admin."""
    kubeconfig = api.kubeconfig("kubectl", ADMIN)
    options = ["--kubeconfig", str(kubeconfig), "--cache-dir", str(api.directory / "kubectl")]

    def run(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return kubectl(*options, *words, stdin=stdin)

    return run


@pytest.mark.parametrize("path", kustomizations())
def test_the_api_server_takes_it(path: str, api: ApiServer, admin: Any) -> None:
    asked = [_known_to(api, each) for each in rendered(path)]
    for each in asked:
        if each["kind"] == "Namespace":
            api.ensure("/api/v1/namespaces", each)
        elif namespace := each["metadata"].get("namespace"):
            api.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": asked})
    done = admin("apply", "--dry-run=server", "-f", "-", stdin=body)
    assert done.returncode == 0, done.stderr
    # A newer server tells so of pods that it would refuse later.
    assert "would violate" not in done.stderr
    assert done.stdout.count("(server dry run)") == len(asked)
    for each in pods_of(tuple(asked)):
        api.call("POST", f"/api/v1/namespaces/{_namespace(each)}/pods?dryRun=All", each)


def _known_to(api: ApiServer, manifest: Object) -> Object:
    """The same in the words of a server of before 1.21."""
    if manifest["apiVersion"] == "policy/v1":
        try:
            api.call("GET", "/apis/policy/v1")
        except urllib.error.HTTPError:
            return {**manifest, "apiVersion": "policy/v1beta1"}
    return manifest


def _namespace(manifest: Object) -> str:
    return str(manifest["metadata"]["namespace"])


def test_a_namespace_is_made_whole_at_once(api: ApiServer, admin: Any) -> None:
    """The cluster makes the account `default` at any moment after the namespace."""
    names = [f"reprise-fresh--{number}" for number in range(4)]
    over = Event()

    def controller() -> None:
        left = set(names)
        while left and not over.wait(0.01):
            there = {each["metadata"]["name"] for each in _namespaces(api)}
            for name in left & there:
                path = f"/api/v1/namespaces/{name}/serviceaccounts"
                api.ensure(path, {"metadata": {"name": "default"}})
            left -= there

    thread = Thread(target=controller)
    thread.start()
    try:
        for name in names:
            body = json.dumps({"apiVersion": "v1", "kind": "List", "items": _in(name)})
            done = admin("apply", "-f", "-", stdin=body)
            assert done.returncode == 0, done.stderr
    finally:
        over.set()
        thread.join()


def _namespaces(api: ApiServer) -> list[Object]:
    items: list[Object] = api.call("GET", "/api/v1/namespaces")["items"]
    return items


def _in(name: str) -> list[Object]:
    """The manifests of a project for another namespace."""
    text = json.dumps(rendered("project")).replace("reprise-default--default", name)
    found: list[Object] = json.loads(text)
    return found


@pytest.mark.parametrize("path", kustomizations())
def test_fields_made_by_the_cluster_are_left_to_it(path: str) -> None:
    """To make it, too, is a race."""
    assert "default" not in objects(path, "ServiceAccount")


@pytest.mark.parametrize("manifest", [{}, {"automountServiceAccountToken": None}])
def test_a_session_has_no_token_of_the_cluster(manifest: Object) -> None:
    assert _session("x", manifest)["spec"]["automountServiceAccountToken"] is False
    asked = _session("x", {"automountServiceAccountToken": True})
    assert asked["spec"]["automountServiceAccountToken"] is True


@pytest.mark.slow
def test_the_executor_uses_each_of_its_rights(
    server: FakeServer, pods: PodAgent, api: ApiServer
) -> None:
    """And has those that it needs, as all tests of the driver show."""
    before = api.audit.stat().st_size
    somebodys = {"name": "reprise-taken-0", "labels": {"whose": "somebody-elses"}}
    taken = {"metadata": somebodys, "spec": {"containers": [IDLE]}}
    api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", taken)
    # The log has a watch when it ends.
    pods.options = ["--watch-seconds", "1", "--priority-class", "urgent=high"]
    strange = submit(server, "true", environ={"REPRISE_ROOT_SESSION_ID": "taken"})
    ranks = submit(server, "true", environ={"REPRISE_ROOT_SESSION_ID": "shared"}, cluster_size=2)
    secret = submit(server, "true", secrets={"KEY": "value"})
    # An earlier try whose answer was lost has made it.
    token = 2  # the second lease there is
    labels = {pod_names.SESSION: ranks.id, pod_names.TOKEN: str(token)}
    made = {"name": pod_names.service_name("shared", token), "labels": labels}
    service = {"metadata": made, "spec": {"clusterIP": "None"}}
    api.ensure(f"/api/v1/namespaces/{NAMESPACE}/services", service)
    pods.start()
    server.wait_settled(strange, ranks, secret)
    nowhere = submit(server, "true", environ={"REPRISE_PROJECT": "default/nowhere"})
    server.wait_for(lambda: nowhere.returned is not None)
    assert ranks.final["status"] == "TERMINATED"
    assert "there is another pod" in strange.final["message"]
    given = {(resource, verb) for _, resource, verb in granted(EXECUTOR_RBAC)}
    until(lambda: _used(api, before) == given)


def _used(api: ApiServer, since: int) -> set[tuple[str, str]]:
    """Resources and verbs that the executor has asked for."""
    with api.audit.open("rb") as log:
        log.seek(since)
        # The last line may not be whole yet.
        entries = [json.loads(line) for line in log if line.endswith(b"\n")]
    assert {each["user"]["username"] for each in entries} == {EXECUTOR_USER}
    return {
        ("/".join(filter(None, (about["resource"], about.get("subresource")))), each["verb"])
        for each in entries
        if (about := each.get("objectRef"))
    }


def test_a_session_may_run_in_its_project(api: ApiServer) -> None:
    """A namespace allows whatever Reprise allows a session to say."""
    (namespace,) = objects("project", "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    project = "default/default"
    assert namespace["metadata"]["name"] == pod_names.namespace(
        pod_names.NAMESPACE_TEMPLATE, project
    )
    api.ensure("/api/v1/namespaces", namespace)
    for pod_spec in ({}, {"securityContext": {"runAsUser": 0}}):
        body = _session(namespace["metadata"]["name"], pod_spec)
        assert baseline_problems(body["spec"]) == []
        api.call("POST", f"/api/v1/namespaces/{_namespace(body)}/pods?dryRun=All", body)


def test_a_session_is_restricted_if_it_does_not_say_otherwise(api: ApiServer) -> None:
    """So the example enforces it."""
    (namespace,) = objects("example/project", "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    name = namespace["metadata"]["name"]
    api.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
    aside = {"name": "aside", "image": "busybox"}
    for pod_spec in ({}, {"initContainers": [aside]}, {"containers": [{"name": "main"}, aside]}):
        body = _session(name, pod_spec)
        assert restricted_problems(body["spec"]) == []
        api.call("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", body)
    assert restricted_problems(_session("x", {"securityContext": {"runAsUser": 0}})["spec"]) != []


def _session(namespace: str, pod_spec: Object) -> Object:
    """The pod of a session, as the driver makes it."""
    spec: Any = {"image": "busybox", "command": ["true"], "pod_spec": pod_spec}
    order = Order(KEY, spec, {}, RunFiles(KEY, Path("/nowhere")))
    (body,) = manifests(order, executor="east", namespace=namespace)
    return body
