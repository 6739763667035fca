from typing import Any

import pytest

from retry.evidence.causes import classify, rule_conditions
from retry.evidence.ended import Ended
from retry.evidence.termination import (
    Termination,
    first_failed_container,
    termination_from_pod,
)
from tests.unit.retry.recorded import (
    LOGS,
    NAMES,
    NEVER_ENDED,
    condition,
    container,
    ended,
    first_end,
    recorded,
    watched,
)

# name: cause, conditions of rules, exit code
RECORDED: dict[str, tuple[str, set[str], int | None]] = {
    "crash-loop-backoff": ("start_failure", set(), 1),
    "deadline-exceeded": ("deadline_exceeded", {"DeadlineExceeded"}, 137),
    "deleted-graceful": ("agent_transient", set(), 143),
    "err-image-never-pull": ("image_pull_failure", set(), None),
    "err-image-pull": ("image_pull_failure", set(), None),
    "evicted-by-api": ("evicted", {"Evicted"}, 143),
    "evicted-by-api-kept": ("evicted", {"Evicted"}, 143),
    "evicted-ephemeral-limit": ("limit_exceeded", set(), 137),
    "evicted-node-pressure": ("evicted", {"Evicted"}, 137),
    "exit-137-not-oom": ("kernel_nonzero_exit", set(), 137),
    "exit-3": ("kernel_nonzero_exit", set(), 3),
    "image-pull-backoff": ("image_pull_failure", set(), None),
    "init-failed": ("kernel_nonzero_exit", set(), 4),
    "invalid-image-name": ("validation_error", set(), None),
    "liveness-restart": ("unknown", set(), None),
    "node-lost": ("evicted", {"Evicted"}, None),
    "node-lost-terminating": ("evicted", {"Evicted"}, None),
    "node-restart-never": ("agent_transient", set(), 255),
    "oom-killed": ("oom_killed", {"OOMKilled"}, 137),
    "out-of-cpu": ("agent_transient", set(), None),
    "preempted": ("preempted", {"Preempted"}, 143),
    "running": ("unknown", set(), None),
    "termination-log-failed": ("kernel_nonzero_exit", set(), 1),
    "unschedulable-cpu": ("scheduler_timeout", {"Unschedulable"}, None),
    "unschedulable-selector": ("scheduler_timeout", {"Unschedulable"}, None),
    "volume-mount-stuck": ("unknown", set(), None),
}
SUCCEEDED = {"preemptor", "restarted-then-succeeded", "succeeded", "termination-log"}


def test_every_recorded_pod_is_looked_at() -> None:
    assert {*RECORDED, *SUCCEEDED} == set(NAMES)
    assert NEVER_ENDED < {*NAMES} == {*LOGS, "node-lost-terminating"}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_pod_has_its_cause(name: str) -> None:
    cause, conditions, code = RECORDED[name]
    termination = termination_from_pod(recorded(name))
    assert termination.status == "error"
    assert classify(termination) == cause
    assert rule_conditions(termination) == conditions
    assert Ended(termination).exit_code == code
    assert termination.node == ("" if name.startswith("unschedulable") else "lab-node")


@pytest.mark.parametrize("name", sorted(SUCCEEDED))
def test_the_phase_decides_that_a_pod_succeeded(name: str) -> None:
    termination = termination_from_pod(recorded(name))
    assert (termination.status, Ended(termination).exit_code) == ("terminated", 0)


@pytest.mark.parametrize("name", LOGS)
def test_the_first_end_that_a_watch_saw_is_the_evidence(name: str) -> None:
    end = first_end(iter(watched(name)))
    if name in NEVER_ENDED:
        assert end is None
        return
    termination = termination_from_pod(end)
    assert (termination.status == "terminated") is (name in SUCCEEDED)
    if name in RECORDED:
        cause, conditions, _ = RECORDED[name]
        assert classify(termination) == cause
        assert rule_conditions(termination) == conditions


@pytest.mark.parametrize("name", sorted({*RECORDED} - NEVER_ENDED - {"node-lost-terminating"}))
def test_events_after_the_end_of_a_pod_are_ignored(name: str) -> None:
    last = watched(name)[-1]
    assert last["status"]["phase"] == "Failed"
    assert last["metadata"]["deletionTimestamp"]
    assert classify(termination_from_pod(last)) == RECORDED[name][0]


def test_a_deletion_that_nobody_noticed_before_the_end_is_not_why_it_ended() -> None:
    pod = recorded("exit-3")
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:12:00Z"
    assert classify(termination_from_pod(pod)) == "agent_transient"
    pod["metadata"]["generation"] = pod["status"]["observedGeneration"] + 1
    assert classify(termination_from_pod(pod)) == "kernel_nonzero_exit"
    pod["status"]["phase"] = "Running"
    assert classify(termination_from_pod(pod)) == "agent_transient"


def test_a_deletion_that_we_asked_for_is_not_somebody_elses() -> None:
    pod = recorded("deleted-graceful")
    assert classify(termination_from_pod(pod, deleted_by_us=True)) == "kernel_nonzero_exit"
    kept = recorded("evicted-by-api-kept")
    assert classify(termination_from_pod(kept, deleted_by_us=True)) == "evicted"


@pytest.mark.parametrize("beside", [{"reason": "Preempted"}, {"conditions": ["Preempted"]}])
def test_the_pods_own_words_take_no_stated_ones_away(beside: dict[str, Any]) -> None:
    pod = recorded("evicted-ephemeral-limit")
    termination = Termination.from_json({"pod": pod, "deleted_by_us": True, **beside})
    assert termination.reason == "Evicted"
    assert classify(termination) == "preempted"


def test_a_disruption_that_did_not_come_about_excuses_no_deletion() -> None:
    pod = recorded("deleted-graceful")
    condition(pod, "DisruptionTarget", "False", reason="EvictionByEvictionAPI")
    assert classify(termination_from_pod(pod)) == "agent_transient"


def test_messages_are_told_apart_by_who_wrote_them() -> None:
    failed = termination_from_pod(recorded("termination-log-failed"))
    assert (failed.message, failed.pod_message) == ("bad input row 7", "")
    evicted = termination_from_pod(recorded("evicted-ephemeral-limit"))
    assert evicted.message == ""
    assert evicted.pod_message.startswith("Pod ephemeral local storage usage exceeds")
    succeeded = termination_from_pod(recorded("termination-log"))
    assert (succeeded.message, succeeded.containers[0].message) == ("", '{"result": 42}')


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("preempted", "default-scheduler: preempting to accommodate"),
        ("evicted-node-pressure", "The node was low on resource: memory."),
        ("image-pull-backoff", "Back-off pulling image"),
        ("crash-loop-backoff", "back-off 10s restarting failed container"),
        ("unschedulable-cpu", "0/1 nodes are available: 1 Insufficient cpu."),
        ("out-of-cpu", "Pod was rejected: Node didn't have enough resource: cpu"),
    ],
)
def test_the_pods_message_says_what_ended_it_or_holds_it_up(name: str, start: str) -> None:
    assert termination_from_pod(recorded(name)).pod_message.startswith(start)


def test_the_termination_message_is_the_first_failed_containers() -> None:
    pod = recorded("exit-3")
    container(pod, "a", terminated=ended(5, message="later", finishedAt="2026-11-21T00:12:05Z"))
    container(pod, "z", terminated=ended(6, message="first", finishedAt="2026-11-21T00:10:00Z"))
    container(pod, "b", terminated=ended(0, message="done", finishedAt="2026-11-21T00:09:00Z"))
    termination = termination_from_pod(pod)
    assert termination.message == "first"
    assert Ended(termination).exit_code == 6
    assert [each.name for each in termination.containers] == ["main", "a", "z", "b"]


def test_the_last_run_of_a_container_counts_only_while_it_waits_to_start_again() -> None:
    last = ended(7, message="gave up")
    pod = recorded("running")
    container(pod, "again", running={}, last=last)
    container(pod, "looping", init=True, waiting={"reason": "CrashLoopBackOff"}, last=last)
    container(pod, "pulling", waiting={"reason": "ErrImagePull"}, last=last)
    termination = termination_from_pod(pod)
    assert [
        (each.name, each.init, each.exit_code, each.reason) for each in termination.containers
    ] == [
        ("looping", True, 7, "CrashLoopBackOff"),
        ("main", False, None, ""),
        ("again", False, None, ""),
        ("pulling", False, None, "ErrImagePull"),
    ]
    failed = first_failed_container(termination)
    assert failed is not None
    assert (failed.name, failed.message, failed.finished_at) == (
        "looping",
        "gave up",
        "2026-11-21T00:12:00Z",
    )


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        (ended(1), "start_failure"),
        (ended(0, "Completed"), "start_failure"),
        (ended(128, "StartError"), "start_failure"),
        (ended(137, "OOMKilled"), "oom_killed"),
        (ended(0, "OOMKilled"), "start_failure"),
        (ended(255, "Unknown"), "agent_transient"),
        (ended(1, "Unknown"), "start_failure"),
        (ended(137, "ContainerStatusUnknown"), "agent_transient"),
        (None, "start_failure"),
    ],
)
def test_a_crash_loop_is_told_by_its_last_run_if_that_knows_more(last: Any, cause: str) -> None:
    pod = recorded("running")
    container(pod, "main", waiting={"reason": "CrashLoopBackOff"}, last=last)
    assert classify(termination_from_pod(pod)) == cause


OOM = "container init was OOM-killed (memory limit too low?)"
RUNC = "failed to create containerd task: runc create failed: unable to start container process: "
TAKEN = 'failed to reserve container name "main_p_n_u_0": name "main_p_n_u_0" is reserved for "4f"'


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"terminated": ended(128, "StartError", message=f"{RUNC}{OOM}: unknown")},
         "oom_killed"),
        ({"terminated": ended(128, "StartError", message=RUNC + "exec: no such file")},
         "start_failure"),
        ({"waiting": {"reason": "RunContainerError", "message": RUNC + OOM}}, "oom_killed"),
        ({"waiting": {"reason": "CreateContainerError", "message": TAKEN}}, "agent_transient"),
        ({"waiting": {"reason": "CreateContainerError", "message": "error reserving ctr name k8s_m"
          " for id 4f: name is reserved"}}, "agent_transient"),
        ({"waiting": {"reason": "CreateContainerError", "message": "context deadline exceeded"}},
         "agent_transient"),
        ({"waiting": {"reason": "CreateContainerError", "message": "no command specified"}},
         "start_failure"),
    ],
)  # fmt: skip
def test_a_message_can_say_what_a_reason_means(state: Any, cause: str) -> None:
    pod = recorded("running")
    pod["status"]["containerStatuses"] = []
    container(pod, "main", **state)
    termination = termination_from_pod(pod)
    assert classify(termination) == cause
    assert Termination.from_json(termination.to_json()) == termination
    assert ("OOMKilled" in rule_conditions(termination)) is (cause == "oom_killed")


@pytest.mark.parametrize("value", [None, 5, "Failed", [], [{"status": {"phase": "Failed"}}], {}])
def test_a_malformed_pod_states_nothing(value: object) -> None:
    assert termination_from_pod(value) == Termination()


def test_a_malformed_part_does_not_spoil_the_others() -> None:
    pod = recorded("init-failed")
    pod["spec"] = None
    pod["status"]["conditions"] = [None, "DisruptionTarget", {"type": ["Evicted"], "status": {}}]
    pod["status"]["reason"] = {"Evicted": True}
    pod["status"]["containerStatuses"] = {"main": {}}
    pod["status"]["initContainerStatuses"][:0] = [7, {"name": 3, "state": {"terminated": "yes"}}]
    termination = termination_from_pod(pod)
    assert classify(termination) == "kernel_nonzero_exit"
    assert [each.name for each in termination.containers] == ["", "prep"]


def test_facts_beside_a_pod_hold_where_it_says_nothing() -> None:
    beside = {"node": "elsewhere", "message": "stated", "exit_code": 9, "lease_expired": True}
    read = Termination.from_json({**beside, "pod": recorded("unschedulable-cpu")})
    assert (read.node, read.message, read.exit_code) == ("elsewhere", "stated", 9)
    assert read.lease_expired
    read = Termination.from_json({**beside, "pod": recorded("termination-log-failed")})
    assert (read.node, read.message) == ("lab-node", "bad input row 7")
    assert Ended(read).exit_code == 1
    assert Termination.from_json({**beside, "pod": recorded("exit-3")}).message == "stated"
    assert Termination.from_json({**beside, "pod": "gone"}) == Termination.from_json(beside)


def test_a_stated_status_stands_and_an_absent_one_is_the_pods() -> None:
    pod = recorded("succeeded")
    assert Termination.from_json({"pod": pod}).status == "terminated"
    assert Termination.from_json({"pod": pod, "status": "success"}).status == "terminated"
    assert Termination.from_json({"pod": recorded("exit-3")}).status == "error"
    cancelled = Termination.from_json({"pod": pod, "status": "cancelled"})
    assert classify(cancelled) == "user_cancelled"


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_of_a_pod_are_stored_and_read_without_it(name: str) -> None:
    termination = termination_from_pod(recorded(name))
    assert Termination.from_json({"pod": recorded(name)}) == termination
    assert Termination.from_json(termination.to_json()) == termination
