"""Priority classes of sessions as PriorityClasses of the cluster: Reprise alone makes room."""

import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from executor.drivers.kubernetes.priority_classes import PATH
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.agent import NAMESPACE, PodAgent, submit
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

HIGH = ("--priority-class", "urgent=high")
Made = Callable[..., None]


@pytest.fixture
def high(api: ApiServer) -> Iterator[Made]:
    """Makes the PriorityClass `high` anew; `None` as its policy leaves it missing.

    It returns when the API server gives pods what it says: its admission learns of it a little
    later.
    """

    def make(policy: str | None = "Never") -> None:
        if exists(api):
            api.call("DELETE", f"{PATH}/high")
        if policy is not None:
            body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": policy}
            api.call("POST", PATH, body)
        until(lambda: policy_given(api) == policy)

    yield make
    make(None)


def exists(api: ApiServer) -> bool:
    items = api.call("GET", PATH)["items"]
    return "high" in {each["metadata"]["name"] for each in items}


def policy_given(api: ApiServer) -> str | None:
    """Return the policy that a new pod with the PriorityClass gets; None if it is refused."""
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"priorityClassName": "high", "containers": containers}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    try:
        made = api.call("POST", path, {"metadata": {"name": "probe"}, "spec": spec})
    except urllib.error.HTTPError:
        return None
    return str(made["spec"]["preemptionPolicy"])


def priority_of(pod: dict[str, Any]) -> tuple[str | None, int, str]:
    spec = pod["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


NONE = (None, 0, "PreemptLowerPriority")
"""What the API server gives a pod that names no PriorityClass."""


def warnings(agent: PodAgent) -> list[str]:
    lines = agent.log.read_text().splitlines()
    return [line for line in lines if "without PriorityClass high" in line and "WARNING" in line]


REFUSED = "without PriorityClass high: the cluster refuses pods with it"


def names_of(agent: PodAgent) -> list[str]:
    return [pod["metadata"]["name"] for pod in agent.api.pods()]


def reported(server: FakeServer) -> list[str]:
    """Return the warnings of the last lease call."""
    bodies = [body for verb, body in server.calls if verb == "lease"]
    return list(bodies[-1].get("warnings", [])) if bodies else []


def told(session: FakeSession) -> str:
    return "".join(report["message"] for report in session.reports)


def test_the_pods_of_a_class_get_its_priority_class(
    server: FakeServer, pods: PodAgent, high: Made, kubelet: Kubelet
) -> None:
    """What the API server adds to them changes nothing, not even for the next agent."""
    kubelet.mine = lambda _pod: False
    high()
    pods.start(*HIGH)
    gang = submit(server, "true", priority_class="urgent", cluster_size=2)
    plain = submit(server, "true", priority_class="default")
    until(lambda: len(pods.pods_of(gang)) == 2)
    assert {priority_of(pod) for pod in pods.pods_of(gang)} == {("high", 1000, "Never")}
    assert priority_of(pods.pod_of(plain)) == NONE
    made = {pod["metadata"]["uid"] for pod in pods.pods_of(gang)}
    pods.kill()
    pods.start(*HIGH)
    # As the kube-scheduler would: the highest priority first.
    waiting = sorted(pods.api.pods(), key=lambda pod: int(pod["spec"]["priority"]), reverse=True)
    assert [pod["spec"]["priority"] for pod in waiting] == [1000, 1000, 0]
    for pod in waiting:
        pods.bind(pod, "node-0")
        pods.set_status(pod, phase="Succeeded")
    server.wait_settled(gang, plain)
    assert gang.termination["pod"]["metadata"]["uid"] in made
    assert [each.final["status"] for each in (gang, plain)] == ["TERMINATED"] * 2
    assert (warnings(pods), reported(server)) == ([], [])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("PreemptLowerPriority", "its preemptionPolicy is PreemptLowerPriority; it must be Never"),
        (None, "the cluster has no such PriorityClass"),
    ],
)
def test_one_that_preempts_or_is_missing_is_left_out(
    server: FakeServer, pods: PodAgent, high: Made, kubelet: Kubelet, policy: str | None, words: str
) -> None:
    kubelet.mine = lambda _pod: False
    high(policy)
    pods.start(*HIGH)
    until(lambda: len(warnings(pods)) == 1)
    assert words in warnings(pods)[0]
    sessions = [submit(server, "true", priority_class="urgent") for _ in range(2)]
    assert [priority_of(pods.pod_of(each)) for each in sessions] == [NONE] * 2
    server.wait_for(lambda: all(words in told(each) for each in sessions))
    assert len(warnings(pods)) == 1
    server.wait_for(
        lambda: reported(server) == [f"pods are made without PriorityClass high: {words}"]
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("PreemptLowerPriority", "computed PreemptLowerPriority"),
        (None, "no PriorityClass with name high"),
    ],
)
def test_one_that_changes_meanwhile_is_left_out(
    server: FakeServer, pods: PodAgent, high: Made, kubelet: Kubelet, policy: str | None, words: str
) -> None:
    """The API server refuses the pod, and takes it without."""
    kubelet.mine = lambda _pod: False
    high()
    pods.start(*HIGH)
    before = submit(server, "true", priority_class="urgent")
    assert priority_of(pods.pod_of(before)) == ("high", 1000, "Never")
    high(policy)
    sessions = [submit(server, "true", priority_class="urgent") for _ in range(2)]
    assert [priority_of(pods.pod_of(each)) for each in sessions] == [NONE] * 2
    server.wait_for(lambda: all(REFUSED in told(each) for each in sessions))
    assert not any(name in told(each) for each in sessions for name in names_of(pods))
    (warning,) = warnings(pods)
    assert words in warning
    server.wait_for(lambda: bool(reported(server)))
    assert REFUSED in reported(server)[0]


def test_an_invalid_pod_is_refused_with_and_without_it(
    server: FakeServer, pods: PodAgent, high: Made
) -> None:
    high()
    pods.start(*HIGH)
    spec = {"containers": [{"name": "NOT a name"}]}
    session = submit(server, "true", priority_class="urgent", pod_spec=spec)
    server.wait_settled(session)
    assert session.termination["reason"] == "Invalid"
    assert warnings(pods) == []


def test_one_that_an_operator_lets_the_user_name_stays(
    server: FakeServer, pods: PodAgent, high: Made, kubelet: Kubelet
) -> None:
    kubelet.mine = lambda _pod: False
    high(None)
    pods.start(*HIGH, "--allow", "priorityClassName", "--allow", "priorityClassName=system-*")
    own = {"priorityClassName": "system-cluster-critical"}
    session = submit(server, "true", priority_class="urgent", pod_spec=own)
    assert priority_of(pods.pod_of(session))[0] == "system-cluster-critical"
    server.wait_for(lambda: bool(session.reports))
    assert "PriorityClass" not in told(session)
