from itertools import combinations
from typing import Any

import pytest

from retry.evidence.causes import (
    FAILURE_CAUSES,
    NEVER_CAUSES,
    PLATFORM_CAUSES,
    RULE_CONDITIONS,
    CauseClass,
    RetryCause,
    cause_class,
    classify,
    oom_killed,
    rule_conditions,
)
from retry.evidence.termination import Termination
from tests.unit.retry.build import a_container

OWN_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 32Mi."
TWO = ("DeadlineExceeded", "OOMKilled")
NODE_PRESSURE = "The node was low on resource: memory. Container main was using 90Mi, "

# One way to state each row, in the table's order, so that any two rows can be stated at once.
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("dependency_failed", {"status": "cancelled", "conditions": ("DependencyFailed",)}),
    ("user_cancelled", {"status": "cancelled"}),
    ("validation_error", {"containers": (a_container("bad", reason="InvalidImageName"),)}),
    ("quota_exceeded", {"conditions": ("QuotaExceeded",)}),
    ("preempted", {"conditions": ("Preempted",)}),
    ("evicted", {"conditions": ("EvictionByEvictionAPI",)}),
    ("limit_exceeded", {"reason": "Evicted", "message": OWN_LIMIT}),
    ("agent_transient", {"lease_expired": True}),
    ("deadline_exceeded", {"conditions": ("DeadlineExceeded",)}),
    ("oom_killed", {"containers": (a_container("big", 137, reason="OOMKilled"),)}),
    ("image_pull_failure", {"containers": (a_container("far", reason="ErrImagePull"),)}),
    ("start_failure", {"containers": (a_container("odd", reason="CreateContainerError"),)}),
    ("scheduler_timeout", {"conditions": ("Unschedulable",)}),
    ("kernel_nonzero_exit", {"exit_code": 3}),
    ("unknown", {}),
]


PAIRS = list(combinations(ROWS, 2))


def both(one: dict[str, Any], other: dict[str, Any]) -> Termination:
    facts = {**other, **one}
    for name in ("conditions", "containers"):
        # The later row's come first: the order of the facts must not decide.
        facts[name] = other.get(name, ()) + one.get(name, ())
    return Termination(**facts)


@pytest.mark.parametrize(("cause", "facts"), ROWS, ids=[cause for cause, _ in ROWS])
def test_each_row_gives_its_cause(cause: str, facts: dict[str, Any]) -> None:
    assert classify(Termination(**facts)) == cause


def test_the_table_has_a_row_for_every_cause() -> None:
    assert [cause for cause, _ in ROWS] == list(RetryCause)


@pytest.mark.parametrize(
    ("earlier", "later"),
    PAIRS,
    ids=[f"{one[0]} before {other[0]}" for one, other in PAIRS],
)
def test_of_two_rows_the_earlier_wins(
    earlier: tuple[str, dict[str, Any]], later: tuple[str, dict[str, Any]]
) -> None:
    assert classify(both(earlier[1], later[1])) == earlier[0]


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("ValidationError", "validation_error"),
        ("InvalidImageName", "validation_error"),
        ("Invalid", "validation_error"),
        ("BadRequest", "validation_error"),
        ("QuotaExceeded", "quota_exceeded"),
        ("Preempting", "preempted"),
        ("Preempted", "preempted"),
        ("PreemptionByScheduler", "preempted"),
        ("DisruptionTarget", "evicted"),
        ("EvictionByEvictionAPI", "evicted"),
        ("DeletionByTaintManager", "evicted"),
        ("DeletionByPodGC", "evicted"),
        ("TerminationByKubelet", "evicted"),
        ("Evicted", "evicted"),
        ("ExecutorLost", "agent_transient"),
        ("PodVanished", "agent_transient"),
        ("PodDeleted", "agent_transient"),
        ("PodCreateFailed", "agent_transient"),
        ("NodeLost", "agent_transient"),
        ("NodeShutdown", "agent_transient"),
        ("ContainerStatusUnknown", "agent_transient"),
        ("UnexpectedAdmissionError", "agent_transient"),
        ("NodeAffinity", "agent_transient"),
        ("OutOfcpu", "agent_transient"),
        ("OutOfmemory", "agent_transient"),
        ("OutOfpods", "agent_transient"),
        ("OutOfexample.com/gpu", "agent_transient"),
        ("DeadlineExceeded", "deadline_exceeded"),
        ("OOMKilled", "oom_killed"),
        ("ErrImagePull", "image_pull_failure"),
        ("ImagePullBackOff", "image_pull_failure"),
        ("ErrImageNeverPull", "image_pull_failure"),
        ("RegistryUnavailable", "image_pull_failure"),
        ("ImageInspectError", "image_pull_failure"),
        ("CrashLoopBackOff", "start_failure"),
        ("CreateContainerError", "start_failure"),
        ("CreateContainerConfigError", "start_failure"),
        ("StartError", "start_failure"),
        ("RunContainerError", "start_failure"),
        ("ContainerCannotRun", "start_failure"),
        ("Unschedulable", "scheduler_timeout"),
        ("Error", "kernel_nonzero_exit"),
        ("oomkilled", "kernel_nonzero_exit"),
        ("OutOfMemoryError", "kernel_nonzero_exit"),
    ],
)
def test_words_stated_as_reason_or_condition_beat_the_exit_code(word: str, cause: str) -> None:
    assert classify(Termination(reason=word, exit_code=1)) == cause
    assert classify(Termination(conditions=("Ready", word), exit_code=1)) == cause


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("InvalidImageName", "validation_error"),
        ("ContainerStatusUnknown", "agent_transient"),
        ("ImagePullBackOff", "image_pull_failure"),
        ("CrashLoopBackOff", "start_failure"),
        ("Preempted", "unknown"),
        ("Evicted", "unknown"),
        ("DeadlineExceeded", "unknown"),
        ("Unschedulable", "unknown"),
        ("OutOfcpu", "unknown"),
        ("PodInitializing", "unknown"),
    ],
)
def test_reasons_of_any_container_count_but_only_for_containers_trouble(
    reason: str, cause: str
) -> None:
    containers = (a_container("a"), a_container("z", reason=reason, init=True))
    assert classify(Termination(containers=containers)) == cause


@pytest.mark.parametrize(
    ("termination", "cause"),
    [
        (Termination(reason="Evicted"), "evicted"),
        (Termination(reason="Evicted", message=NODE_PRESSURE + "request is 1"), "evicted"),
        (
            Termination(reason="Evicted", message=NODE_PRESSURE + "which exceeds its request of 0"),
            "evicted",
        ),
        (Termination(reason="Evicted", message=OWN_LIMIT), "limit_exceeded"),
        (
            Termination(
                reason="Evicted",
                message="Container main exceeded its local storage limit",
            ),
            "limit_exceeded",
        ),
        (
            Termination(reason="Evicted", message=OWN_LIMIT, conditions=("DisruptionTarget",)),
            "evicted",
        ),
        (Termination(reason="Evicted", message=OWN_LIMIT, conditions=("Evicted",)), "evicted"),
        (Termination(conditions=("Evicted",), message=OWN_LIMIT), "evicted"),
        (Termination(message="Evicted: it exceeds", exit_code=1), "kernel_nonzero_exit"),
    ],
)
def test_an_eviction_is_the_sessions_own_fault_only_by_its_own_limit(
    termination: Termination, cause: str
) -> None:
    assert classify(termination) == cause


@pytest.mark.parametrize(
    ("containers", "cause"),
    [
        ((a_container("a", 0), a_container("b", 137, reason="OOMKilled")), "oom_killed"),
        ((a_container("i", 1, reason="OOMKilled", init=True),), "oom_killed"),
        ((a_container("a", 0, reason="OOMKilled"),), "unknown"),
        ((a_container("a", 0, reason="OOMKilled"), a_container("b", 2)), "kernel_nonzero_exit"),
        ((a_container("a", 137, reason="Error"),), "kernel_nonzero_exit"),
        ((a_container("a", 255, reason="Unknown"),), "agent_transient"),
        ((a_container("a", 1, reason="Unknown"), a_container("b", 255)), "kernel_nonzero_exit"),
        ((a_container("a", 0), a_container("b")), "unknown"),
        ((a_container("a", 0), a_container("i", 4, init=True)), "kernel_nonzero_exit"),
    ],
)
def test_exit_codes_belong_to_the_reason_beside_them(
    containers: tuple[Any, ...], cause: str
) -> None:
    assert classify(Termination(containers=containers)) == cause


def test_a_reason_is_read_with_the_sessions_own_exit_code() -> None:
    assert classify(Termination(reason="OOMKilled", exit_code=0)) == "unknown"
    assert classify(Termination(reason="OOMKilled", exit_code=137)) == "oom_killed"
    assert classify(Termination(reason="Unknown", exit_code=255)) == "agent_transient"
    assert classify(Termination(reason="Unknown", exit_code=1)) == "kernel_nonzero_exit"


def test_a_plain_exit_code_survives_malformed_evidence() -> None:
    evidence = {"exit_code": 9, "containers": "gone", "reason": 5, "conditions": {"OOMKilled": 1}}
    assert classify(Termination.from_json(evidence)) is RetryCause.KERNEL_NONZERO_EXIT


def test_every_cause_has_one_class() -> None:
    assert {str(cause) for cause in PLATFORM_CAUSES} == {"preempted", "evicted", "agent_transient"}
    assert {str(cause) for cause in NEVER_CAUSES} == {
        "dependency_failed",
        "user_cancelled",
        "validation_error",
        "quota_exceeded",
    }
    classes = {
        CauseClass.NEVER: NEVER_CAUSES,
        CauseClass.PLATFORM: PLATFORM_CAUSES,
        CauseClass.FAILURE: FAILURE_CAUSES,
    }
    for cause in RetryCause:
        assert [kind for kind, causes in classes.items() if cause in causes] == [cause_class(cause)]


@pytest.mark.parametrize(
    ("termination", "conditions"),
    [
        (Termination(exit_code=137), set()),
        (Termination(conditions=tuple(RULE_CONDITIONS)), set(RULE_CONDITIONS)),
        (Termination(reason="Preempting"), {"Preempted"}),
        (Termination(conditions=("PreemptionByScheduler",)), {"Preempted"}),
        (Termination(conditions=("DisruptionTarget", "PreemptionByScheduler")), {"Preempted"}),
        (Termination(conditions=("DisruptionTarget",)), {"Evicted"}),
        (Termination(conditions=("DeletionByPodGC",)), {"Evicted"}),
        (Termination(reason="Evicted", message=NODE_PRESSURE), {"Evicted"}),
        (Termination(reason="Evicted", message=OWN_LIMIT), set()),
        (Termination(reason="DeadlineExceeded", conditions=("OOMKilled",)), set(TWO)),
        (
            Termination(
                conditions=("EvictionByEvictionAPI",),
                containers=(a_container("z", 137, reason="OOMKilled", init=True),),
            ),
            {"Evicted", "OOMKilled"},
        ),
        (Termination(containers=(a_container("a", 0, reason="OOMKilled"),)), set()),
        (Termination(reason="OOMKilled", exit_code=137), {"OOMKilled"}),
        (Termination(lease_expired=True, reason="ErrImagePull"), set()),
    ],
)
def test_the_conditions_of_rules_come_from_the_same_facts(
    termination: Termination, conditions: set[str]
) -> None:
    assert rule_conditions(termination) == conditions


def test_a_container_was_oom_killed_only_if_it_failed_by_it() -> None:
    assert oom_killed(a_container("a", 137, reason="OOMKilled"))
    assert not oom_killed(a_container("a", 0, reason="OOMKilled"))
    assert not oom_killed(a_container("a", 137, reason="Error"))
