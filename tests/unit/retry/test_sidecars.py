"""Tests that a sidecar does not say why a pod failed, unless nothing else does."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.drivers.kubernetes.pod_trim import trimmed
from executor.drivers.kubernetes.pod_words import first_failed
from retry.evidence.causes import classify, rule_conditions
from retry.evidence.ended import Ended
from retry.evidence.termination import (
    Termination,
    first_failed_container,
    termination_from_pod,
)
from tests.unit.retry.build import a_container, decided
from tests.unit.retry.named import named
from tests.unit.retry.recorded import composed

# name: cause, exit code, the container that says why, whether the workload wants another attempt
COMPOSED = {
    "sidecar-oom-killed": ("kernel_nonzero_exit", 3, "main", False),
    "sidecar-oom-killed-first": ("kernel_nonzero_exit", 3, "main", True),
    "sidecar-crash-loop": ("kernel_nonzero_exit", 3, "main", False),
    "sidecar-failed-alone": ("deadline_exceeded", 7, "proxy", True),
}


@pytest.fixture(params=[lambda pod: pod, trimmed], ids=["whole", "trimmed"])
def seen(request: Any) -> Any:
    """A pod as the cluster gives it, and as executors send it."""
    return lambda name: request.param(composed(name))


@pytest.mark.parametrize("name", COMPOSED)
def test_the_others_say_why(name: str, seen: Any) -> None:
    cause, code, container, retry = COMPOSED[name]
    termination = termination_from_pod(seen(name))
    failed = first_failed_container(termination)
    assert failed is not None
    assert (classify(termination), Ended(termination).exit_code) == (cause, code)
    assert failed.name == container
    assert Ended(termination).wishes.retry is retry
    assert "OOMKilled" not in rule_conditions(termination)


def test_a_success_has_exit_code_0(seen: Any) -> None:
    termination = termination_from_pod(seen("sidecar-terminated"))
    assert (termination.status, Ended(termination).exit_code) == ("terminated", 0)


def test_an_exit_code_that_is_not_retried_is_heard() -> None:
    termination = replace(termination_from_pod(composed("sidecar-crash-loop")), message="")
    containers = tuple(replace(each, message="") for each in termination.containers)
    decision = decided(
        replace(termination, containers=containers), max_retries=3, no_retry_on_exit_codes=[3]
    )
    assert decision.reason == "exit_code_excluded"


def test_a_rule_that_names_a_sidecar_sees_it() -> None:
    rule = {"action": "Retry", "containerName": "proxy", "includeInitContainers": True}
    termination = termination_from_pod(composed("sidecar-oom-killed-first"))
    policies = [named({**rule, "onConditions": ["OOMKilled"]})]
    assert decided(termination, named=policies).action == "retry"
    policies = [named({"action": "Retry", "onConditions": ["OOMKilled"]})]
    assert decided(termination, named=policies).action == "fail"


def test_stated_containers_count_like_read_ones() -> None:
    containers = (
        a_container("proxy", 137, init=True, reason="OOMKilled", sidecar=True),
        a_container("main", 3),
    )
    termination = Termination(containers=containers)
    assert classify(termination) == "kernel_nonzero_exit"
    assert Termination.from_json(termination.to_json()) == termination
    assert classify(Termination(containers=containers[:1])) == "oom_killed"


def test_kueue_takes_a_place_back(seen: Any) -> None:
    termination = termination_from_pod(seen("kueue-preempted"))
    assert classify(termination) == "preempted"
    assert termination.pod_message.startswith("Preempted to accommodate a workload")
    pod = composed("kueue-preempted")
    pod["status"]["conditions"][0]["reason"] = "WorkloadEvictedDueToPodsReadyTimeout"
    assert classify(termination_from_pod(pod)) == "evicted"
    pod["status"]["conditions"][0]["reason"] = "WorkloadDeleted"
    assert classify(termination_from_pod(pod)) == "agent_transient"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Preempted to accommodate a higher priority Workload", "preempted"),
        ("Preempted to accommodate a workload (UID: 4f) in the ClusterQueue", "preempted"),
        ("Exceeded the PodsReady timeout tests/pod-main-1", "evicted"),
    ],
)
def test_an_older_kueue_has_one_reason_for_all(message: str, cause: str) -> None:
    pod = composed("kueue-preempted")
    pod["status"]["conditions"][0].update(reason="StoppedByKueue", message=message)
    termination = termination_from_pod(pod)
    assert (classify(termination), termination.pod_message) == (cause, message)


TIMES = st.sampled_from(["2026-11-21T00:00:01Z", "2026-11-21T00:00:02Z", None])
ENDED = st.builds(
    lambda code, at: {"exitCode": code, **({"finishedAt": at} if at else {})},
    st.sampled_from([0, 1, 137]),
    TIMES,
)
STATES = st.one_of(
    ENDED.map(lambda end: {"state": {"terminated": end}}),
    st.just({"state": {"running": {}}}),
    st.just({"state": {"waiting": {"reason": "PodInitializing"}}}),
    ENDED.map(
        lambda end: {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": end},
        }
    ),
)


@given(st.dictionaries(st.sampled_from("abcde"), STATES))
def test_executors_find_the_same_container(states: dict[str, Any]) -> None:
    """They send the end of its output."""
    spec = {
        "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
        "containers": [{"name": name} for name in "cde"],
    }
    statuses = [{"name": name, **state} for name, state in states.items()]
    status = {
        "phase": "Failed",
        "initContainerStatuses": [each for each in statuses if each["name"] in "ab"],
        "containerStatuses": [each for each in statuses if each["name"] in "cde"],
    }
    pod = {"metadata": {"name": "p"}, "spec": spec, "status": status}
    theirs = first_failed(trimmed(pod))
    ours = first_failed_container(termination_from_pod(pod))
    assert (theirs and theirs[2]) == (ours and ours.name)
