"""Pods whose nodes no longer answer, and what no cluster will take."""

from typing import Any

import pytest

from executor.drivers.kubernetes.pod_names import FINALIZER
from retry.evidence.causes import classify
from retry.evidence.termination import Termination
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.agent import PodAgent, path_of, submit
from tests.kubernetes.kubelet import Kubelet, now
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]


def runs(agent: PodAgent, pod: dict[str, Any], **status: Any) -> None:
    running = {"name": "main", "state": {"running": {"startedAt": now()}}, "ready": True,
               "image": "x", "imageID": "x", "restartCount": 0}  # fmt: skip
    agent.set_status(pod, phase="Running", containerStatuses=[running], **status)


def cause(session: FakeSession) -> str:
    return str(classify(Termination.from_json(session.termination)))


def test_a_pod_on_a_node_that_is_gone_ends_unfenced(
    server: FakeServer, pods: PodAgent, kubelet: Kubelet
) -> None:
    """The taint manager deletes it, and nobody is there to see it stop. The others of its session
    are stopped first."""
    kubelet.mine = lambda pod: not pod["metadata"]["name"].endswith("-1")
    pods.start("--unconfirmed-after", "2")
    session = submit(server, "sleep 600", cluster_size=2, termination_grace_period=1)
    until(lambda: len(pods.pods_of(session)) == 2)
    lost = next(pod for pod in pods.pods_of(session) if pod["metadata"]["name"].endswith("-1"))
    pods.bind(lost, "node-that-is-gone")
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    runs(pods, lost, conditions=[disruption])
    server.wait_for(lambda: "RUNNING" in session.statuses)
    pods.api.call("DELETE", path_of(lost), {"gracePeriodSeconds": 1})
    server.wait_settled(session)

    assert session.termination["unfenced"] is True
    assert cause(session) == "evicted"
    assert session.termination["pod"]["metadata"]["labels"]["reprise.dev/rank"] == "1"

    # What is left is let go of: the cluster removes it when it knows that the node is gone.
    def let_go() -> bool:
        left = pods.pods_of(session)
        return [FINALIZER in (pod["metadata"].get("finalizers") or ()) for pod in left] == [False]

    until(let_go)


def test_a_pod_too_large_for_the_cluster_is_the_sessions_fault(
    server: FakeServer, agent: PodAgent
) -> None:
    session = submit(server, "true", environ={"MUCH": "x" * 2_000_000})
    server.wait_settled(session)
    assert cause(session) == "validation_error"
    assert "too large" in session.final["message"]
