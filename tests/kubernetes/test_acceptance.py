"""A whole Reprise with an executor of pods: a server, the agent, an API server."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from executor.drivers.kubernetes.pod_names import SESSION
from executor.drivers.protocol import PLACEMENT_SECONDS
from tests.acceptance.running import (
    ROOT,
    Program,
    Standalone,
    clean_environ,
    ended,
    reached,
    submit,
)
from tests.kubernetes.agent import path_of, purge
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.scheduler import REQUIRED, VOLUME, Scheduler
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

NAME = "pods"
NAMESPACE = "reprise-default--default"
OTHERS = "/api/v1/namespaces/default/pods"
# Beside the new one, the local executor takes nothing more.
MAKE_EXECUTOR = f"""
import django
django.setup()
from scheduler.models import Executor
from sessions_app.services.access.tokens import token_create
Executor.objects.filter(name="local").update(cordoned=True)
Executor.objects.create(name="{NAME}")
print(token_create(name="{NAME}", executor_name="{NAME}"))
"""


class Pods:
    """An executor of the server, which comes and goes."""

    def __init__(self, server: Standalone, directory: Path, kubeconfig: Path):
        environ = clean_environ(
            DATABASE_URL=server.database_url, DJANGO_SETTINGS_MODULE="reprise.settings"
        )
        made = subprocess.run(
            [sys.executable, "-c", MAKE_EXECUTOR],
            cwd=ROOT, env=environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        self._token = made.stdout.strip()
        self._command = [
            *(sys.executable, "-m", "executor", "--name", NAME, "--driver", "kubernetes"),
            *("--url", server.credentials["url"], "--state-dir", str(directory / "state")),
            *("--kubeconfig", str(kubeconfig), "--relist-seconds", "2"),
        ]
        self.program = self.start()

    def start(self) -> Program:
        self.program = Program(self._command, REPRISE_EXECUTOR_TOKEN=self._token)
        return self.program


@pytest.fixture(scope="module")
def server(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("kubernetes") / "data")
    with Standalone(data_dir) as standalone:
        standalone.start(REPRISE_START_CHECK_FIRST="1", REPRISE_START_CHECK_AGAIN="2")
        yield standalone
        assert standalone.violations() == []
        standalone.stop()


@pytest.fixture(scope="module")
def executor(
    server: Standalone,
    api: ApiServer,
    kubelet: Kubelet,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pods]:
    api.grant_executor()
    api.namespace(NAMESPACE)
    kubeconfig = api.kubeconfig("acceptance", "executor-token")
    pods = Pods(server, tmp_path_factory.mktemp("executor"), kubeconfig)
    yield pods
    pods.program.kill()
    purge(api)


def test_a_flaky_session_runs_to_success(server: Standalone, executor: Pods) -> None:
    script = "echo attempt $REPRISE_ATTEMPT; test $REPRISE_ATTEMPT = 1"
    session = submit(server.client, script, policy={"max_retries": 1})
    attempts = ended(server.client, session)
    assert len(attempts) == 2, attempts
    first, second = attempts
    assert (first.status, first.exit_code) == ("ERROR", 1)
    assert second.status == "TERMINATED"


def test_a_preempted_pod_is_retried(server: Standalone, executor: Pods, api: ApiServer) -> None:
    script = "test $REPRISE_ATTEMPT = 1 || exec sleep 600"
    session = submit(server.client, script, policy={"max_retries": 1})
    reached(server.client, session, "RUNNING")
    (pod,) = _pods(api, session)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "preempted by a pod of a higher priority",
    }
    api.call(
        "PATCH",
        f"{path_of(pod)}/status",
        {"status": {"conditions": [condition]}},
        kind="application/strategic-merge-patch+json",
    )
    api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 1})
    attempts = ended(server.client, session)
    assert len(attempts) == 2, attempts
    first, second = attempts
    assert (first.status, first.cause) == ("ERROR", "preempted")
    assert second.status == "TERMINATED"


def test_the_next_agent_goes_on(server: Standalone, executor: Pods, api: ApiServer) -> None:
    session = submit(server.client, "echo began; sleep 5; echo done")
    reached(server.client, session, "RUNNING")
    executor.program.kill()
    executor.start()
    (attempt,) = ended(server.client, session)
    assert attempt.status == "TERMINATED"
    assert server.client.logs(session) == b"began\ndone\n"
    until(lambda: not _pods(api, session))


@pytest.fixture
def by_hand(kubelet: Kubelet) -> Iterator[dict[str, str]]:
    """The labels of sessions whose pods no node looks after."""
    kubelet.mine = lambda pod: "by-hand" not in pod["metadata"]["labels"]
    yield {"by-hand": "yes"}
    kubelet.mine = lambda _pod: True


def test_an_image_that_cannot_be_pulled(
    server: Standalone, executor: Pods, api: ApiServer, by_hand: dict[str, str]
) -> None:
    session = submit(server.client, "true", labels=by_hand)
    until(lambda: _pods(api, session))
    (pod,) = _pods(api, session)
    node = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    body = {"metadata": {"name": pod["metadata"]["name"]}, "target": node}
    api.call("POST", f"{path_of(pod)}/binding", body)
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "any"'}
    main = {"name": "main", "image": "any", "imageID": "", "state": {"waiting": waiting},
            "ready": False, "restartCount": 0}  # fmt: skip
    kind = "application/strategic-merge-patch+json"
    status = f"{path_of(pod)}/status"
    api.call("PATCH", status, {"status": {"containerStatuses": [main]}}, kind=kind)
    until(lambda: "deletionTimestamp" in _pods(api, session)[0]["metadata"])
    shown = server.client.session(session)
    assert shown.status == "TERMINATING"
    # As the kubelet does once nothing of it is left.
    api.call("PATCH", status, {"status": {"phase": "Failed"}}, kind=kind)
    api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 0})
    (attempt,) = ended(server.client, session)
    assert (attempt.status, attempt.cause) == ("ERROR", "image_pull_failure")
    message = server.client.session(session).status_message or ""
    assert message == shown.status_message
    assert message.startswith("container main: its image any cannot be pulled (ImagePullBackOff: ")
    assert message.endswith("Check that the image exists and that this cluster may pull it.")
    until(lambda: not _pods(api, session))


def test_nothing_schedules_a_pod(
    server: Standalone, executor: Pods, api: ApiServer, by_hand: dict[str, str]
) -> None:
    session = submit(server.client, "true", labels=by_hand, scheduling_timeout=3)
    (attempt,) = ended(server.client, session)
    assert (attempt.status, attempt.cause) == ("ERROR", "scheduler_timeout")
    message = server.client.session(session).status_message or ""
    assert message.startswith(
        "no node has been found for the pod; so it is for 3 s now. Check what"
    )
    until(lambda: not _pods(api, session))


@pytest.fixture
def scheduler(api: ApiServer, kubelet: Kubelet) -> Iterator[Scheduler]:
    """It is not started yet; nodes run what it gives them, if it is a session's."""

    def ours_and_bound(pod: dict[str, Any]) -> bool:
        return SESSION in pod["metadata"].get("labels", {}) and "nodeName" in pod["spec"]

    kubelet.mine = ours_and_bound
    played = Scheduler(api)
    yield played
    played.stop()
    _evict_the_other_tenant(api)
    kubelet.mine = lambda _pod: True


def test_a_refused_plan_goes_to_another_node(
    server: Standalone, executor: Pods, api: ApiServer, scheduler: Scheduler
) -> None:
    """Another tenant of the cluster was quicker. That is no failure, and no attempt."""
    session = submit(server.client, "true", resources={"cpu": "40"}, policy={"max_retries": 0})
    (pod,) = until(lambda: _pods(api, session), "it has a pod")
    (node,) = _planned(pod)
    _let_another_tenant_in(api, node, cpu="40")
    scheduler.start()
    why = _refusal(server, session)
    assert why.startswith(f"{NAME}: node {node}: 0/2 nodes are available: 1 Insufficient cpu, ")
    (attempt,) = ended(server.client, session)
    assert attempt.status == "TERMINATED"
    assert {node, attempt.node} == {"node-0", "node-1"}
    assert len(_refusals(server, session)) == 1


def test_after_another_reason_the_cluster_chooses(
    server: Standalone, executor: Pods, api: ApiServer, scheduler: Scheduler
) -> None:
    """The planned node was tainted in the same moment."""
    # Long enough for its pod to be seen.
    session = submit(server.client, "sleep 5", resources={"cpu": "1"}, policy={"max_retries": 0})
    (first,) = until(lambda: _pods(api, session), "it has a pod")
    (node,) = _planned(first)
    with _tainted(api, node):
        scheduler.start()
        assert "1 node(s) had untolerated taint {gpu: a100}. " in _refusal(server, session)
        (second,) = until(lambda: _pods(api, session), "it has a pod again")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert _planned(second) == []
        (attempt,) = ended(server.client, session)
    assert attempt.status == "TERMINATED"
    assert {node, attempt.node} == {"node-0", "node-1"}


def test_a_plan_that_a_volume_forbids_is_the_sessions_own(
    server: Standalone, executor: Pods, api: ApiServer, scheduler: Scheduler
) -> None:
    """Its volume is on a node that does not exist. The cluster is asked for any node, once."""
    _make_claim(api, "far", node="node-9")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "far"}}
    scheduler.start()
    session = submit(
        server.client,
        "true",
        resources={"cpu": "1"},
        pod_spec={"volumes": [volume]},
        scheduling_timeout=PLACEMENT_SECONDS + 10,
    )
    (first,) = until(lambda: _pods(api, session), "it has a pod")
    (node,) = _planned(first)
    why = _refusal(server, session)
    assert why.startswith(f"{NAME}: node {node}: 0/2 nodes are available: ")
    assert f", 1 {VOLUME}. " in why
    (second,) = until(lambda: _pods(api, session), "it has a pod again")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert _planned(second) == []
    (attempt,) = ended(server.client, session)
    assert (attempt.status, attempt.cause) == ("ERROR", "scheduler_timeout")
    assert f"2 {VOLUME}" in (server.client.session(session).status_message or "")
    assert len(_refusals(server, session)) == 1
    # No node looks full to others.
    fits = submit(server.client, "true", resources={"cpu": "60"})
    (attempt,) = ended(server.client, fits)
    assert attempt.status == "TERMINATED"


def _planned(pod: dict[str, Any]) -> list[str]:
    """Return the nodes by whose names the pod is bound."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    asked = (each for term in affinity.get("nodeSelectorTerms", ()) for each in term["matchFields"])
    return [name for each in asked if each["operator"] == "In" for name in each["values"]]


def _refusals(server: Standalone, session: str) -> list[str]:
    """Return why its plans were refused."""
    events = server.client.events(session)
    return [each.data["reason"] for each in events if each.type == "session.placement_refused"]


def _refusal(server: Standalone, session: str) -> str:
    return until(lambda: next(iter(_refusals(server, session)), None), "its plan is refused")


def _let_another_tenant_in(api: ApiServer, node: str, *, cpu: str) -> None:
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": cpu}}}
    body = {"metadata": {"name": "other"}, "spec": {"nodeName": node, "containers": [container]}}
    api.call("POST", OTHERS, body)


def _evict_the_other_tenant(api: ApiServer) -> None:
    with suppress(HTTPError):
        api.call("DELETE", f"{OTHERS}/other", {"gracePeriodSeconds": 0})


@contextmanager
def _tainted(api: ApiServer, node: str) -> Iterator[None]:
    path, kind = f"/api/v1/nodes/{node}", "application/merge-patch+json"
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    api.call("PATCH", path, {"spec": {"taints": [taint]}}, kind=kind)
    try:
        yield
    finally:
        api.call("PATCH", path, {"spec": {"taints": None}}, kind=kind)


def _make_claim(api: ApiServer, name: str, *, node: str) -> None:
    """A claim in the project's namespace, bound to a volume on this node."""
    amount, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    named = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    volume = {
        "capacity": amount,
        "accessModes": modes,
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": named}]}},
    }
    claim = {"accessModes": modes, "resources": {"requests": amount}, "volumeName": name}
    api.call("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    api.call("POST", claims, {"metadata": {"name": name}, "spec": claim})


def _pods(api: ApiServer, session: str) -> list[dict[str, Any]]:
    found = api.pods(NAMESPACE)
    return [pod for pod in found if pod["metadata"]["labels"].get(SESSION) == session]
