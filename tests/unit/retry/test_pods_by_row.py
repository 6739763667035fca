"""The rows of the table as facts of pods: alone, against each other, and against mere words."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from retry.evidence.causes import RetryCause, classify, rule_conditions
from retry.evidence.termination import Termination, termination_from_pod
from scheduler.core.pod_status import assess
from tests.unit.retry.recorded import condition, container, ended, recorded

OWN_LIMIT = 'Usage of EmptyDir volume "scratch" exceeds the limit "32Mi". '
EVERY_WORD = (
    "OOMKilled Evicted exceeds the limit Preempted DisruptionTarget DeadlineExceeded ErrImagePull "
    "InvalidImageName QuotaExceeded NodeLost OutOfcpu Unknown CrashLoopBackOff Unschedulable"
)

Change = Callable[[Any], None]


def _failed() -> Any:
    """A pod that has failed on a node; nothing says why."""
    pod = recorded("exit-3")
    pod["status"]["containerStatuses"] = []
    return pod


def _preempted(pod: Any) -> None:
    # As the kubelet puts it, so that there is a place left for the API's eviction.
    condition(pod, "Preempting", message=EVERY_WORD)


def _evicted(pod: Any) -> None:
    condition(pod, "DisruptionTarget", reason="EvictionByEvictionAPI")


def _over_its_limit(pod: Any) -> None:
    pod["status"].update(reason="Evicted", message=OWN_LIMIT)


def _unscheduled(pod: Any) -> None:
    del pod["spec"]["nodeName"]
    condition(pod, "PodScheduled", "False", reason="Unschedulable")


def _waits(reason: str) -> Change:
    return lambda pod: container(pod, reason.lower(), init=True, waiting={"reason": reason})


def _ends(code: int, reason: str) -> Change:
    return lambda pod: container(pod, reason.lower(), terminated=ended(code, reason))


ROWS: list[tuple[str, Change]] = [
    ("validation_error", _waits("InvalidImageName")),
    ("preempted", _preempted),
    ("evicted", _evicted),
    ("limit_exceeded", _over_its_limit),
    ("agent_transient", _ends(255, "Unknown")),
    ("deadline_exceeded", lambda pod: condition(pod, "DeadlineExceeded")),
    ("oom_killed", _ends(137, "OOMKilled")),
    ("image_pull_failure", _waits("ErrImagePull")),
    ("start_failure", _waits("CreateContainerError")),
    ("scheduler_timeout", _unscheduled),
    ("kernel_nonzero_exit", _ends(3, "Error")),
    ("unknown", lambda pod: None),
]
PAIRS = list(combinations(ROWS, 2))


def test_only_what_no_pod_can_say_has_no_row_here() -> None:
    assert [cause for cause, _ in ROWS] == [
        cause
        for cause in RetryCause
        if cause not in {"dependency_failed", "user_cancelled", "quota_exceeded"}
    ]


@pytest.mark.parametrize(("cause", "change"), ROWS, ids=[cause for cause, _ in ROWS])
def test_each_row_gives_its_cause(cause: str, change: Change) -> None:
    pod = _failed()
    change(pod)
    assert classify(termination_from_pod(pod)) == cause


@pytest.mark.parametrize(
    ("earlier", "later"), PAIRS, ids=[f"{one[0]} before {other[0]}" for one, other in PAIRS]
)
def test_of_two_rows_the_earlier_wins(
    earlier: tuple[str, Change], later: tuple[str, Change]
) -> None:
    for changes in ((earlier, later), (later, earlier)):
        pod = _failed()
        for _, change in changes:
            change(pod)
        assert classify(termination_from_pod(pod)) == earlier[0]


@pytest.mark.parametrize(("cause", "change"), ROWS, ids=[cause for cause, _ in ROWS])
def test_free_text_decides_nothing(cause: str, change: Change) -> None:
    pod = _failed()
    change(pod)
    pod["status"]["message"] = pod["status"].get("message", "") + EVERY_WORD
    for each in pod["status"].get("conditions", []):
        each["message"] = EVERY_WORD
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in pod["status"].get(key, []):
            for state in status["state"].values():
                state["message"] = EVERY_WORD
    assert classify(termination_from_pod(pod)) == cause


@pytest.mark.parametrize(("cause", "change"), ROWS, ids=[cause for cause, _ in ROWS])
def test_a_user_who_cancelled_it_beats_whatever_the_pod_says(cause: str, change: Change) -> None:
    pod = _failed()
    change(pod)
    assert classify(Termination.from_json({"pod": pod, "status": "cancelled"})) == "user_cancelled"


@pytest.mark.parametrize(
    ("reason", "cause", "conditions"),
    [
        ("PreemptionByScheduler", "preempted", {"Preempted"}),
        ("EvictionByEvictionAPI", "evicted", {"Evicted"}),
        ("DeletionByTaintManager", "evicted", {"Evicted"}),
        ("DeletionByPodGC", "evicted", {"Evicted"}),
        ("TerminationByKubelet", "evicted", {"Evicted"}),
        ("SomebodyElses", "evicted", {"Evicted"}),
        ("", "evicted", {"Evicted"}),
    ],
)
def test_a_disruption_is_told_by_its_reason(reason: str, cause: str, conditions: set[str]) -> None:
    pod = recorded("exit-3")
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:12:00Z"
    condition(pod, "DisruptionTarget", reason=reason)
    termination = termination_from_pod(pod)
    assert classify(termination) == cause
    assert rule_conditions(termination) == conditions
    condition(pod, "DisruptionTarget", "False", reason=reason)
    assert classify(termination_from_pod(pod)) == "agent_transient"


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "OutOfexample.com/gpu",
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodeShutdown",
        "TaintToleration",
        "TopologyAffinityError",
    ],
)
def test_a_pod_that_the_kubelet_did_not_admit_is_the_platforms_trouble(reason: str) -> None:
    pod = recorded("out-of-cpu")
    pod["status"]["reason"] = reason
    assert classify(termination_from_pod(pod)) == "agent_transient"


def test_a_pod_that_went_with_its_node_is_the_platforms_trouble() -> None:
    pod = recorded("exit-137-not-oom")
    message = "Pod was terminated in response to imminent node shutdown."
    pod["status"].update(reason="Terminated", message=message)
    assert classify(termination_from_pod(pod)) == "agent_transient"
    condition(pod, "DisruptionTarget", "True", reason="TerminationByKubelet")
    assert classify(termination_from_pod(pod)) == "evicted"


def test_a_pod_evicted_at_its_admission_went_for_want_of_the_nodes_resources() -> None:
    pod = recorded("out-of-cpu")
    message = "Pod was rejected: The node had condition: [DiskPressure]. "
    pod["status"].update(reason="Evicted", message=message)
    assert classify(termination_from_pod(pod)) == "evicted"


def test_a_pod_that_made_room_for_a_critical_one_was_preempted() -> None:
    pod = recorded("evicted-node-pressure")
    pod["status"].update(reason="Preempting", message="Preempted in order to admit critical pod")
    assert classify(termination_from_pod(pod)) == "preempted"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            "limit_exceeded",
        ),
        (OWN_LIMIT, "limit_exceeded"),
        ('Container main exceeded its local ephemeral storage limit "10Mi". ', "limit_exceeded"),
        (
            "The node was low on resource: disk. Container main exceeds its request of 0. ",
            "evicted",
        ),
        ("", "evicted"),
    ],
)
def test_an_eviction_without_a_disruption_is_told_by_the_kubelets_message(
    message: str, cause: str
) -> None:
    pod = recorded("evicted-ephemeral-limit")
    pod["status"]["message"] = message
    termination = termination_from_pod(pod)
    assert classify(termination) == cause
    assert rule_conditions(termination) == ({"Evicted"} if cause == "evicted" else set())
    condition(pod, "DisruptionTarget", reason="TerminationByKubelet")
    assert classify(termination_from_pod(pod)) == "evicted"


def test_text_of_the_workload_makes_no_eviction_its_own_fault() -> None:
    pod = recorded("evicted-node-pressure")
    pod["status"]["conditions"] = []
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = OWN_LIMIT
    assert classify(termination_from_pod(pod)) == "evicted"


def test_an_evicted_pod_whose_container_was_oom_killed_has_both_conditions() -> None:
    pod = recorded("evicted-node-pressure")
    container(pod, "big", terminated=ended(137, "OOMKilled"))
    assert rule_conditions(termination_from_pod(pod)) == {"Evicted", "OOMKilled"}


def test_a_child_that_was_oom_killed_is_no_failure_of_a_container_that_succeeded() -> None:
    pod = recorded("succeeded")
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    assert termination_from_pod(pod).status == "terminated"
    pod["status"]["phase"] = "Failed"
    container(pod, "other", terminated=ended(2))
    termination = termination_from_pod(pod)
    assert classify(termination) == "kernel_nonzero_exit"
    assert rule_conditions(termination) == frozenset()


@pytest.mark.parametrize("waiting", ["ErrImagePull", "ContainerCreating", "PodInitializing"])
def test_a_deadline_that_passed_while_pulling_is_a_deadline(waiting: str) -> None:
    pod = recorded("deadline-exceeded")
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": waiting}}
    assert classify(termination_from_pod(pod)) == "deadline_exceeded"


def test_a_failed_pod_with_a_container_still_running_has_lost_its_node() -> None:
    pod = recorded("node-lost")
    pod["metadata"].pop("deletionTimestamp")
    pod["status"]["conditions"] = []
    assert classify(termination_from_pod(pod)) == "agent_transient"
    pod["status"]["reason"] = "DeadlineExceeded"
    assert classify(termination_from_pod(pod)) == "deadline_exceeded"
    del pod["status"]["reason"]
    container(pod, "other", terminated=ended(4))
    assert classify(termination_from_pod(pod)) == "kernel_nonzero_exit"


def test_a_pod_whose_node_does_not_answer_is_lost() -> None:
    pod = recorded("running")
    pod["status"]["phase"] = "Unknown"
    assert classify(termination_from_pod(pod)) == "agent_transient"


def test_a_container_that_the_kubelet_no_longer_found_was_lost() -> None:
    pod = recorded("exit-137-not-oom")
    container(pod, "gone", terminated=ended(137, "ContainerStatusUnknown"))
    assert classify(termination_from_pod(pod)) == "agent_transient"


def test_a_pod_that_found_its_node_later_was_schedulable() -> None:
    pod = recorded("running")
    condition(pod, "PodScheduled", "False", reason="Unschedulable")
    assert classify(termination_from_pod(pod)) == "unknown"
    pod = recorded("unschedulable-cpu")
    condition(pod, "PodScheduled", "True", reason="Unschedulable")
    assert classify(termination_from_pod(pod)) == "unknown"


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulerError", "SchedulingGated", ""])
def test_a_pod_without_a_node_was_not_scheduled_whatever_the_reason(reason: str) -> None:
    """As the check of its start says; a scheduler that does not exist says nothing at all."""
    pod = recorded("unschedulable-cpu")
    pod["status"]["conditions"] = []
    if reason:
        condition(pod, "PodScheduled", "False", reason=reason, message="so it is")
    termination = termination_from_pod(pod)
    assert classify(termination) == assess(pod).cause == "scheduler_timeout"
    assert termination.pod_message == ("so it is" if reason else "")
    assert Termination.from_json(termination.to_json()) == termination


def test_conditions_about_a_pods_life_are_none_of_its_end() -> None:
    pod = recorded("exit-3")
    condition(pod, "Ready", "False", reason="Evicted")
    condition(pod, "Preempted", "False")
    condition(pod, "example.com/Evicted")
    condition(pod, "NodeLost")
    assert termination_from_pod(pod).conditions == ()
