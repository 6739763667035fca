"""Sessions as pods: what becomes of them, through a real agent and a real API server."""

import json
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.fit import Ask, Room
from scheduler.core.node_rules import node_rules
from tests.executor_fake import FakeServer
from tests.kubernetes.agent import PodAgent, path_of, submit
from tests.kubernetes.kubelet import Kubelet, now
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]


def test_a_session_runs_as_a_pod(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "echo $GREETING to you", environ={"GREETING": "hello"})
    server.wait_settled(session)

    assert session.final["status"] == "TERMINATED"
    assert session.final["node"].startswith("node-")
    assert session.statuses[0] == "PREPARING"
    assert "RUNNING" in session.statuses
    assert session.log == b"hello to you\n"
    # The pod goes once its end was answered.
    until(lambda: not agent.pods_of(session))


def test_the_users_file_of_passwords_is_nobodys_business(
    server: FakeServer, pods: PodAgent, tmp_path: Path
) -> None:
    """A default entry of it would take the place of the cluster's token."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    pods.start(NETRC=str(netrc))
    session = submit(server, "true")
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"


def test_a_failure_carries_the_pod(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "echo oh no; exit 3")
    server.wait_settled(session)

    assert session.final["status"] == "ERROR"
    (container,) = session.termination["pod"]["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3
    assert session.log == b"oh no\n"


def test_a_cancelled_session_ends_with_its_pod(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "trap 'echo bye; exit 5' TERM; echo up; sleep 600 & wait")
    server.wait_for(lambda: b"up" in session.log)
    server.stop_session(session, "cancelled", 30)
    server.wait_settled(session)

    assert session.final["status"] == "ERROR"
    assert session.termination["deleted_by_us"] is True
    assert session.log == b"up\nbye\n"
    until(lambda: not agent.pods_of(session))


def test_the_ranks_of_a_session_end_together(server: FakeServer, agent: PodAgent) -> None:
    script = "echo rank $REPRISE_RANK of $REPRISE_CLUSTER_SIZE; "
    script += "if [ $REPRISE_RANK = 2 ]; then exit 7; fi; sleep 600"
    session = submit(server, script, cluster_size=3, termination_grace_period=2)
    server.wait_settled(session)

    pod = session.termination["pod"]
    assert pod["metadata"]["labels"]["reprise.dev/rank"] == "2"
    assert session.final["status"] == "ERROR"
    assert b"rank 0 of 3" in session.log
    assert b"==== rank 2 ====\nrank 2 of 3\n" in session.log
    until(lambda: not agent.pods_of(session))


def test_all_ranks_succeed(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "true", cluster_size=3)
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"


def test_a_refusal_of_the_cluster_is_the_sessions_fault(server: FakeServer, pods: PodAgent) -> None:
    pods.start("--allow", "priorityClassName")
    session = submit(server, "true", pod_spec={"priorityClassName": "no-such-class"})
    other = submit(server, "true", pod_spec={"hostNetwork": True})
    server.wait_settled(session, other)

    assert session.termination["reason"] == "Invalid"
    assert "no-such-class" in session.final["message"]
    assert other.termination["reason"] == "ValidationError"


def test_another_pod_of_the_name_is_no_success(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    name = "0192f8a0-0000-7000-8000-000000000001"
    body = {
        "metadata": {"name": f"reprise-{name}-0", "labels": {"test": "foreign"}},
        "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]},
    }
    agent.api.call("POST", "/api/v1/namespaces/reprise-default--tests/pods", body)
    session = submit(server, "true", environ={"REPRISE_ROOT_SESSION_ID": name})
    server.wait_settled(session)
    assert session.termination["reason"] == "PodCreateFailed"


NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def terms_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the terms of a pod's node affinity, one of which a node must match."""
    required = pod["spec"]["affinity"]["nodeAffinity"][NODE_AFFINITY]
    found: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return found


def planned(node: str) -> list[dict[str, Any]]:
    return [{"key": "metadata.name", "operator": "In", "values": [node]}]


NO_ROOM = "0/2 nodes are available: 1 Insufficient cpu."


def refuse(agent: PodAgent, pod: dict[str, Any]) -> None:
    """As a scheduler does that finds no room on the pod's node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    agent.set_status(pod, conditions=[{**condition, "message": NO_ROOM}])


def test_a_pod_whose_planned_node_is_refused_goes_back(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    """Unless it gets the node after all."""
    kubelet.mine = lambda _pod: False
    refused = submit(server, "true", nodes=["node-0"])
    bound = submit(server, "true", nodes=["node-1"])
    for session, node in ((bound, "node-1"), (refused, "node-0")):
        pod = agent.pod_of(session)
        (term,) = terms_of(pod)
        assert term["matchFields"] == planned(node)
        refuse(agent, pod)
    agent.bind(agent.pod_of(bound), "node-1")
    until(lambda: refused.returned is not None, seconds=40)
    assert (refused.returned, refused.refused_node) == (NO_ROOM, "node-0")
    assert agent.pods_of(refused) == []
    # It was refused before the one that has gone back.
    assert agent.pod_of(bound)["spec"]["nodeName"] == "node-1"
    assert bound.returned is None


class Gang:
    """A session of two ranks, of which a test plays the nodes. Rank 1 has its node."""

    def __init__(self, server: FakeServer, agent: PodAgent):
        self._agent = agent
        self.session = submit(server, "true", nodes=["node-0", "node-1"], cluster_size=2)
        until(lambda: len(self.pods) == 2)
        agent.bind(self.pods[1], "node-1")

    @property
    def pods(self) -> list[dict[str, Any]]:
        return sorted(self._agent.pods_of(self.session), key=lambda pod: pod["metadata"]["name"])

    @property
    def leaves(self) -> bool:
        """Only rank 1 is there, and it was told to stop."""
        return [bool(pod["metadata"].get("deletionTimestamp")) for pod in self.pods] == [True]

    def went_back(self) -> tuple[str, str] | None:
        """The cluster's words and the node, once the lease was handed back."""
        words = self.session.returned
        return None if words is None else (words, self.session.refused_node)

    def show(self, phase: str, state: dict[str, Any]) -> None:
        """As the node of rank 1 does."""
        container = {"name": "main", "image": "busybox", "imageID": "", "state": state,
                     "ready": False, "restartCount": 0}  # fmt: skip
        self._agent.set_status(self.pods[-1], phase=phase, containerStatuses=[container])

    def confirm(self, **terminated: Any) -> None:
        """As that node does once nothing of the pod is left."""
        self.show("Failed", {"terminated": {"exitCode": 137, "reason": "Error", **terminated}})
        self._agent.api.call("DELETE", path_of(self.pods[-1]), {"gracePeriodSeconds": 0})


def test_ranks_go_back_together_if_the_node_of_one_is_refused(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    """Unless one has started, or the refused one gets its node after all."""
    kubelet.mine = lambda _pod: False
    running, bound, late, waits = (Gang(server, agent) for _ in range(4))
    running.show("Running", {"running": {"startedAt": now()}})
    for gang in (running, bound, late, waits):
        first, second = gang.pods
        assert terms_of(first)[0]["matchFields"] == planned("node-0")
        assert terms_of(second)[0]["matchFields"] == planned("node-1")
        refuse(agent, first)
    agent.bind(bound.pods[0], "node-0")

    until(lambda: waits.leaves and late.leaves, seconds=40)
    late.confirm(startedAt=now())
    server.wait_settled(late.session)
    # Nothing starts anew before the other rank has gone, too.
    assert waits.went_back() is None
    assert set(waits.session.statuses) == {"PREPARING"}
    # Its node says so of a container that has never been there.
    waits.confirm(reason="ContainerStatusUnknown")
    assert until(waits.went_back) == (NO_ROOM, "node-0")
    assert waits.pods == []
    # What ran for a moment is not started again for nothing, and is no failure of its own.
    assert late.went_back() is None
    assert late.session.termination["reason"] == "PodCreateFailed"
    assert "unfenced" not in late.session.termination
    assert NO_ROOM in late.session.final["message"]
    # These were refused before those that have gone.
    for gang in (running, bound):
        assert gang.went_back() is None
        assert [pod["metadata"].get("deletionTimestamp") for pod in gang.pods] == [None, None]


def test_a_planned_node_stands_in_each_of_the_users_terms(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    """The API server takes it so; tolerations stay as they are."""
    kubelet.mine = lambda _pod: False
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
    ]
    toleration = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    affinity = {"nodeAffinity": {NODE_AFFINITY: {"nodeSelectorTerms": zones}}}
    asked = {"affinity": affinity, "tolerations": [toleration]}
    pod = agent.pod_of(submit(server, "true", nodes=["node-1"], pod_spec=asked))
    assert terms_of(pod) == [{**zone, "matchFields": planned("node-1")} for zone in zones]
    assert toleration in pod["spec"]["tolerations"]


def test_a_pod_waits_for_a_node_of_a_template(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    """Its labels join the user's selector, beside the nodes that it leaves out."""
    kubelet.mine = lambda _pod: False
    session = submit(
        server,
        "true",
        avoid_node="node-0",
        node_labels={"pool": "gpu", "zone": "b"},
        pod_spec={"nodeSelector": {"disk": "ssd", "pool": "gpu"}},
        cluster_size=2,
    )
    until(lambda: len(agent.pods_of(session)) == 2)
    for pod in agent.pods_of(session):
        assert pod["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "gpu", "zone": "b"}
        (term,) = terms_of(pod)
        assert term["matchFields"] == [
            {"key": "metadata.name", "operator": "NotIn", "values": ["node-0"]}
        ]
        annotations = pod["metadata"]["annotations"]
        assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
        assert annotations["karpenter.sh/do-not-disrupt"] == "true"


def test_the_server_hears_which_nodes_can_come_and_which_are_tainted(
    server: FakeServer, pods: PodAgent, kubelet: Kubelet, tmp_path: Path
) -> None:
    """A round plans nothing there that does not tolerate the taint."""
    file, taint = tmp_path / "templates.json", {"key": "gpu", "effect": "NoSchedule"}
    declared = {"name": "gpu", "resources": {"cpu": "8"}, "labels": {"pool": "gpu"}, "max": 3}
    file.write_text(json.dumps([{**declared, "taints": [taint]}]))
    node, merge = "/api/v1/nodes/node-0", "application/merge-patch+json"
    pods.api.call("PATCH", node, {"spec": {"taints": [taint]}}, kind=merge)
    try:
        pods.start("--node-templates", str(file))
        tainted: list[Any] = []

        def heard() -> bool:
            lease_calls = [body for verb, body in server.calls if verb == "lease"]
            named = [body for body in lease_calls if body["nodes"]]
            tainted[:] = named[-1:]
            return bool(tainted)

        until(heard)
    finally:
        pods.api.call("PATCH", node, {"spec": {"taints": None}}, kind=merge)
    (body,) = tainted
    assert body["node_templates"] == [{**declared, "taints": [taint]}]
    room = Room(body["nodes"], (), body["node_templates"])
    tolerant = node_rules({"tolerations": [{"key": "gpu", "operator": "Exists"}]})
    many, one = {"cpu": Decimal(64)}, {"cpu": Decimal(8)}
    assert room.place(Ask(many)) == ["node-1"]
    assert room.place(Ask(many)) is None
    assert room.grow(Ask(one)) is None
    assert room.place(Ask(many, rules=tolerant)) == ["node-0"]
    assert room.grow(Ask(one, rules=tolerant)) == "gpu"


def test_a_preempted_pod_says_so(server: FakeServer, agent: PodAgent, kubelet: Kubelet) -> None:
    kubelet.mine = lambda _pod: False
    session = submit(server, "sleep 600")
    pod = agent.pod_of(session)
    agent.bind(pod, "node-1")
    agent.set_status(
        pod,
        phase="Running",
        conditions=[
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "preempting to accommodate a higher priority pod",
            }
        ],
    )
    agent.api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 30})
    server.wait_for(lambda: "TERMINATING" in session.statuses)
    agent.set_status(pod, phase="Failed")
    server.wait_settled(session)

    conditions = session.termination["pod"]["status"]["conditions"]
    assert "PreemptionByScheduler" in [each.get("reason") for each in conditions]
    assert "deleted_by_us" not in session.termination


def test_evidence_outlives_a_forced_deletion(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    """Somebody deletes the pod with force while nobody looks: the finalizer keeps it."""
    kubelet.mine = lambda _pod: False
    session = submit(server, "sleep 600")
    pod = agent.pod_of(session)
    agent.process.send_signal(signal.SIGSTOP)
    agent.set_status(pod, phase="Failed", reason="Evicted", message="The node was low on memory.")
    agent.api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 0})
    agent.process.send_signal(signal.SIGCONT)
    server.wait_settled(session)
    assert session.termination["pod"]["status"]["reason"] == "Evicted"
    until(lambda: not agent.pods_of(session))


def test_a_pod_whose_finalizer_was_taken_away_goes_too(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "sleep 2")
    without = {"metadata": {"finalizers": None}}
    path, kind = path_of(agent.pod_of(session)), "application/merge-patch+json"
    agent.api.call("PATCH", path, without, kind=kind)
    server.wait_settled(session)
    until(lambda: not agent.pods_of(session))


def test_a_pod_that_never_had_a_node_ends_at_once(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    kubelet.mine = lambda _pod: False
    session = submit(server, "true")
    agent.pod_of(session)
    server.stop_session(session, "cancelled", 30)
    server.wait_settled(session)
    assert session.termination["deleted_by_us"] is True
    until(lambda: not agent.pods_of(session))


def test_the_reason_why_a_pod_waits_is_reported(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    kubelet.mine = lambda _pod: False
    session = submit(server, "true")
    pod = agent.pod_of(session)
    metadata = pod["metadata"]
    agent.api.call(
        "POST",
        f"/api/v1/namespaces/{metadata['namespace']}/events",
        {
            "metadata": {"generateName": "event-"},
            "involvedObject": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": "Warning",
            "reason": "FailedMount",
            "message": "the volume is elsewhere",
            "lastTimestamp": now(),
        },
    )
    server.wait_for(lambda: any("FailedMount" in report["message"] for report in session.reports))
    assert session.reports[-1]["pod"]["metadata"]["uid"] == metadata["uid"]


def test_the_nodes_are_told(server: FakeServer, agent: PodAgent) -> None:
    def both_sent() -> bool:
        leases = [body for verb, body in server.calls if verb == "lease"]
        return bool(leases) and len(leases[-1]["nodes"] or ()) == 2

    until(both_sent)
    *_, last = (body for verb, body in server.calls if verb == "lease" and body["nodes"])
    assert {node["name"] for node in last["nodes"]} == {"node-0", "node-1"}
    assert last["nodes"][0]["allocatable"]["cpu"] == "64"
