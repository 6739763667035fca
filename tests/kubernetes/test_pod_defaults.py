"""Pod defaults of an executor, and the tolerations that its API server adds by itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.executor_fake import FakeServer
from tests.kubernetes.agent import NAMESPACE, PodAgent, submit
from tests.kubernetes.apiserver import ADMIN, EXECUTOR, ApiServer, binaries
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

GPU = "nvidia.com/gpu"
BATCH = {"key": "batch", "operator": "Exists", "effect": "NoSchedule"}
DEFAULTS = {
    "metadata": {"labels": {"team": "defaults"}, "annotations": {"team/note": "defaults"}},
    "spec": {
        "tolerations": [BATCH],
        "nodeSelector": {"pool": "batch"},
        "securityContext": {"runAsUser": 2000},
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
PLACING = {"tolerations": [BATCH], "nodeSelector": {"pool": "batch"}}
OPTION = "--assume-extended-resource-tolerations"


def told(server: FakeServer, name: str, default: Any = None) -> Any:
    """Return a field of the last lease call."""
    bodies = [body for verb, body in server.calls if verb == "lease"]
    return bodies[-1].get(name, default) if bodies else None


@pytest.fixture(scope="module")
def tolerant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A cluster that adds tolerations for extended resources."""
    assets = binaries()
    if assets is None:
        pytest.skip("no kube-apiserver: see the fixture `api`")
    plugin = "--enable-admission-plugins=ExtendedResourceToleration"
    with ApiServer(tmp_path_factory.mktemp("tolerant"), assets, plugin) as server:
        yield server


def test_pods_get_the_defaults_below_what_sessions_say(
    server: FakeServer, pods: PodAgent, kubelet: Kubelet, tmp_path: Path
) -> None:
    kubelet.mine = lambda _pod: False
    file = tmp_path / "defaults.yaml"
    file.write_text(json.dumps(DEFAULTS))
    pods.start("--pod-defaults", str(file))
    plain = submit(server, "true")
    own = submit(
        server, "true",
        pod_spec={"nodeSelector": {"pool": "own"}, "securityContext": {"runAsUser": 7}},
        labels={"team": "own"},
    )  # fmt: skip
    made = pods.pod_of(plain)
    assert made["metadata"]["labels"]["team"] == "defaults"
    assert made["metadata"]["annotations"]["team/note"] == "defaults"
    spec = made["spec"]
    assert spec["nodeSelector"] == {"pool": "batch"}
    assert BATCH in spec["tolerations"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert "data" in {each["name"] for each in spec["volumes"]}
    # The security context that is shipped fills in only what nobody has said.
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsUser"] == 2000
    assert "runAsUser" not in container["securityContext"]
    assert container["securityContext"]["runAsNonRoot"] is True
    other = pods.pod_of(own)
    assert other["metadata"]["labels"]["team"] == "own"
    assert other["spec"]["nodeSelector"] == {"pool": "own"}
    assert other["spec"]["securityContext"]["runAsUser"] == 7
    assert BATCH in other["spec"]["tolerations"]
    # The server plans with them.
    assert told(server, "pod_placing") == PLACING


def test_a_cluster_that_adds_tolerations_is_found_by_a_dry_run(
    server: FakeServer, tolerant: ApiServer, tmp_path: Path
) -> None:
    agent = PodAgent(server.url, tmp_path, tolerant, tolerant.kubeconfig("admin", ADMIN))
    try:
        agent.start()
        until(lambda: told(server, "extended_tolerations") is True)
        assert told(server, "warnings", []) == []
        assert tolerant.pods() == []
        # What the server counts on is what the pod gets.
        session = submit(server, "true", resources={GPU: "1"})
        wanted = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        assert wanted in agent.pod_of(session)["spec"]["tolerations"]
    finally:
        agent.kill()


def test_an_executor_with_rights_in_projects_only_finds_it_with_the_first_session(
    server: FakeServer, tolerant: ApiServer, tmp_path: Path
) -> None:
    """Until then it says so, if a node has a taint that matters."""
    tolerant.grant_executor()
    node = {"metadata": {"name": "gpu"},
            "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]}}  # fmt: skip
    tolerant.call("POST", "/api/v1/nodes", node)
    status = {"status": {"allocatable": {"cpu": "4"},
                         "conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip
    kind = "application/strategic-merge-patch+json"
    tolerant.call("PATCH", "/api/v1/nodes/gpu/status", status, kind=kind)
    agent = PodAgent(server.url, tmp_path, tolerant, tolerant.kubeconfig("executor", EXECUTOR))
    try:
        submit(server, "true")
        agent.start()
        until(lambda: bool(tolerant.pods(NAMESPACE)))
        until(lambda: told(server, "extended_tolerations") or told(server, "warnings"))
        if not told(server, "extended_tolerations"):
            (why,) = told(server, "warnings")
            assert f"gets a node with the taint {GPU}: say {OPTION} on or off" in why
        agent.kill()
        # The next one finds the session at once.
        agent.start()
        until(lambda: told(server, "extended_tolerations") is True)
        assert told(server, "warnings", []) == []
    finally:
        agent.kill()
        tolerant.call("DELETE", "/api/v1/nodes/gpu")


@pytest.mark.parametrize(("options", "added"), [((), False), ((OPTION, "on"), True)])
def test_a_cluster_without_the_plugin_adds_none_unless_it_is_said(
    server: FakeServer, pods: PodAgent, options: tuple[str, ...], added: bool
) -> None:
    pods.start(*options)
    server.wait_for(lambda: told(server, "nodes") is not None)
    submit(server, "true")
    until(lambda: bool(pods.api.pods(NAMESPACE)))
    assert bool(told(server, "extended_tolerations")) is added
