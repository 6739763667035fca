"""A node that refuses a pod says why; whether another one may take it makes the cause."""

from pathlib import Path

import pytest

from executor.drivers.kubernetes.pod_trim import trimmed
from retry.evidence.causes import classify
from retry.evidence.node_refusals import NODE_REFUSALS
from retry.evidence.termination import termination_from_pod
from scheduler.core.pod_status import assess
from tests.unit.retry.recorded import composed, container, ended, recorded

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes.md"
COMPOSED = {
    "refused-app-armor": "agent_transient",
    "refused-feature": "agent_transient",
    "refused-node-info": "agent_transient",
    "refused-os": "start_failure",
    "refused-predicate": "agent_transient",
    "refused-sysctl": "start_failure",
}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_refusal_has_its_cause_and_its_words(name: str) -> None:
    pod = composed(name)
    for seen in (pod, trimmed(pod)):
        termination = termination_from_pod(seen)
        assert classify(termination) == COMPOSED[name]
        assert termination.pod_message == pod["status"]["message"]
        state = assess(seen)
        assert state.cause == COMPOSED[name]
        assert state.message.startswith("node lab-node has refused the pod (")
        assert pod["status"]["message"].rstrip(".") in state.message


@pytest.mark.parametrize("reason", [*NODE_REFUSALS, "OutOfexample.com/gpu", "SomethingNew"])
def test_every_reason_has_one(reason: str) -> None:
    pod = composed("refused-sysctl")
    pod["status"]["reason"] = reason
    elsewhere = NODE_REFUSALS.get(reason, True)
    cause = "agent_transient" if elsewhere else "start_failure"
    assert classify(termination_from_pod(pod)) == cause


@pytest.mark.parametrize(
    ("reason", "cause"), [("Evicted", "evicted"), ("DeadlineExceeded", "deadline_exceeded")]
)
def test_ends_with_a_cause_of_their_own_keep_it(reason: str, cause: str) -> None:
    pod = composed("refused-sysctl")
    pod["status"]["reason"] = reason
    assert classify(termination_from_pod(pod)) == cause


def test_a_pod_that_ran_was_not_refused() -> None:
    pod = recorded("exit-3")
    pod["status"]["reason"] = "SomethingNew"
    assert classify(termination_from_pod(pod)) == "kernel_nonzero_exit"
    pod = composed("refused-sysctl")
    pod["status"]["reason"] = "SomethingNew"
    container(pod, "main", terminated=ended(0))
    assert classify(termination_from_pod(pod)) == "unknown"


def test_the_page_names_them_all() -> None:
    page = PAGE.read_text()
    begin = page.index("## When a node refuses a pod")
    table = page[begin : page.index("\n## ", begin + 1)]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    for reason, elsewhere in NODE_REFUSALS.items():
        if " " not in reason:
            cause = "`agent_transient`" if elsewhere else "`start_failure`"
            assert any(f"`{reason}`" in row and cause in row for row in rows), reason
