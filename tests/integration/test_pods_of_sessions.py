"""Tests of mounts and pod specifications at creation, and of the facts of pods."""

from datetime import timedelta
from typing import Any

import pytest

from base.podspec.specification import refused_paths
from retry.explain.sentences import explain
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api, agent
from tests.unit.retry.recorded import condition, recorded


def create(api: Api, **fields: Any) -> Any:
    return api.post("sessions/", {"project": "acme/work", "command": ["true"], **fields})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("mounts", [{"path": "/a", "claim": "c"}, {"path": "/b"}], "must have exactly one of"),
        ("mounts", [{"path": "b", "secret": "s"}], "path must be absolute"),
        ("pod_spec", {"hostNetwork": True}, "hostNetwork: is refused here"),
        (
            "pod_spec",
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
            "spec.volumes[0].hostPath: is refused here",
        ),
        (
            "pod_spec",
            {"priorityClassName": "system-node-critical"},
            "priorityClassName: is refused here",
        ),
        ("pod_spec", {"priorityClassName": "high"}, "priorityClassName: is refused here"),
        ("pod_spec", {"priority": 1000}, "priority: is refused here"),
        (
            "pod_spec",
            {"spec": {"preemptionPolicy": "Never"}},
            "spec.preemptionPolicy: is refused here",
        ),
        ("pod_spec", {"schedulerName": "mine"}, "schedulerName: is refused here"),
        (
            "pod_spec",
            {"schedulingGates": [{"name": "example.org/gate"}]},
            "schedulingGates: is refused here",
        ),
        (
            "pod_spec",
            {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "x"}}, "spec": {}},
            "metadata.annotations[k8s.v1.cni.cncf.io/networks]: is refused here",
        ),
        (
            "pod_spec",
            {"metadata": {"ownerReferences": [{"kind": "Job", "name": "j"}]}, "spec": {}},
            "metadata.ownerReferences: is refused here",
        ),
        (
            "pod_spec",
            {"spec": {"tolerations": [{"operator": "Exists"}]}},
            "spec.tolerations[0].key: must be given here",
        ),
        ("pod_spec", {"containers": "x"}, "containers: must be a list of objects"),
    ],
)
def test_forbidden_pod_fields_are_named(api: Api, field: str, value: Any, words: str) -> None:
    response = create(api, **{field: value})
    assert response.status_code == 400, response.content
    ((name, (message,)),) = response.json()["errors"].items()
    assert name.startswith(field)
    assert words in message
    assert not Session.objects.exists()


def test_an_operator_says_what_is_refused(api: Api, settings: Any) -> None:
    settings.POD_FIELDS_REFUSED = refused_paths(["hostNetwork"], ["runtimeClassName"])
    assert create(api, pod_spec={"hostNetwork": True}).status_code == 201
    assert create(api, pod_spec={"runtimeClassName": "fast"}).status_code == 400
    asked = {"metadata": {"name": "mine"}, "spec": {"tolerations": [{"operator": "Exists"}]}}
    settings.POD_FIELDS_REFUSED = refused_paths(["metadata.name"])
    assert create(api, pod_spec=asked).status_code == 400
    settings.POD_FIELDS_REFUSED = refused_paths(["metadata.name", "tolerations[].key="])
    assert create(api, pod_spec=asked).status_code == 201


def ended(at: Project, termination: dict[str, Any]) -> Session:
    session = factories.submit(at, retry_policy=factories.policy())
    played = agent()
    played.lease()
    played.start(session.pk)
    played.report(session.pk, "TERMINATING")
    played.report(session.pk, "ERROR", termination=termination)
    return Session.objects.get(pk=session.pk)


@pytest.mark.parametrize(("ours", "cause"), [(True, "unknown"), (False, "agent_transient")])
def test_the_author_of_a_deletion_makes_the_difference(at: Project, ours: bool, cause: str) -> None:
    pod = recorded("running")
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:12:00Z"
    session = ended(at, {"pod": pod, "deleted_by_us": ours})
    assert (session.retry_cause, session.node) == (cause, "lab-node")


@pytest.mark.parametrize("unfenced", [True, False])
def test_an_unfenced_end_counts_as_unconfirmed(at: Project, unfenced: bool) -> None:
    pod = recorded("node-lost")
    condition(pod, "DisruptionTarget", reason="PreemptionByScheduler")
    session = ended(at, {"pod": pod, "unfenced": unfenced})
    assert session.retry_cause == "preempted"
    event = SessionEvent.objects.get(session_id=session.pk, type="session.error")
    assert event.data.get("unfenced", False) is unfenced
    due_at = RetryDecision.objects.get(session_id=session.pk).due_at
    assert due_at is not None
    assert session.terminating_at is not None
    waits = due_at - session.terminating_at
    # The grace period outlasts the delay of the policy, unless somebody saw the end.
    assert (waits >= timedelta(seconds=30)) is unfenced


def test_a_vanished_pod_is_nobodys_fault(at: Project) -> None:
    session = ended(at, {"reason": "PodVanished", "pod": recorded("unschedulable-cpu")})
    assert session.retry_cause == "agent_transient"


LIVENESS = "Liveness probe failed: HTTP probe failed with statuscode: 500"


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("oom-killed", {}, "The container main was OOM-killed on node lab-node"),
        ("deleted-graceful", {}, "The pod on node lab-node was deleted by somebody"),
        (
            "exit-137-not-oom",
            {"pod_message": LIVENESS, "rank": 2},
            f"The container main of rank 2 exited with code 137 on node lab-node: {LIVENESS}",
        ),
        ("exit-3", {}, "The container main exited with code 3 on node lab-node"),
    ],
)
def test_the_message_of_an_end_is_about_the_end(
    at: Project, name: str, facts: dict[str, Any], message: str
) -> None:
    session = factories.submit(at, retry_policy=factories.policy())
    played = agent()
    played.lease()
    played.start(session.pk)
    reason = "NodeNotReady: Node is not ready"
    played.report(session.pk, "RUNNING", message=reason)
    played.report(session.pk, "ERROR", message=reason, termination={"pod": recorded(name), **facts})
    assert Session.objects.get(pk=session.pk).status_message == message
    trace = RetryDecision.objects.get(session_id=session.pk).trace
    words = explain({}, trace)[0]
    assert words.startswith(message.removesuffix(f": {LIVENESS}"))
    assert ("The cluster said: Liveness" in words) is ("pod_message" in facts)
    assert "platform" not in words


def test_a_cancelled_session_goes_on_saying_who_cancelled_it(at: Project) -> None:
    session = factories.submit(at, retry_policy=factories.policy())
    played = agent()
    played.lease()
    played.start(session.pk)
    chain_cancel(session.pk, by="ann")
    pod = recorded("deleted-graceful")
    played.report(session.pk, "ERROR", termination={"pod": pod, "deleted_by_us": True})
    ended = Session.objects.get(pk=session.pk)
    assert (ended.status, ended.status_message) == ("CANCELLED", "cancelled by ann")
