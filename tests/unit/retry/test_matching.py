"""Tests of which failures a rule matches: each matcher, and the container that it is read from."""

from typing import Any

import pytest

from retry.evidence.termination import ContainerFacts, Termination
from retry.policies.documents import MATCHERS
from tests.unit.retry.build import PREEMPTED, a_container, decided, exited
from tests.unit.retry.named import category, named

SIGNATURE = "0123456789ab"


def matches(rule: dict[str, Any], end: Termination, *categories: str) -> bool:
    known = [category(name, {"onExitCodes": codes("NotIn", 255)}) for name in categories]
    decision = decided(
        end, named=[named({"action": "Retry", **rule})], categories=known, signature=SIGNATURE
    )
    assert decision.reason in {"rule_retry", "no_policy"}
    return decision.reason == "rule_retry"


def codes(operator: str, *values: int) -> dict[str, Any]:
    return {"operator": operator, "values": list(values)}


def at(seconds: int, name: str, exit_code: int | None, **fields: Any) -> ContainerFacts:
    return a_container(name, exit_code, finished_at=str(seconds), **fields)


def of(*containers: ContainerFacts, **fields: Any) -> Termination:
    return Termination(containers=containers, **fields)


IN = {"onExitCodes": codes("In", 3, 137)}
NOT_IN = {"onExitCodes": codes("NotIn", 3)}


@pytest.mark.parametrize(
    ("rule", "end", "expected"),
    [
        (IN, exited(3), True),
        (IN, exited(137), True),
        (IN, exited(4), False),
        (NOT_IN, exited(4), True),
        (NOT_IN, exited(3), False),
        (NOT_IN, exited(300), True),
        (NOT_IN, exited(-9), True),
        # Code 0 and a missing one match neither operator.
        (NOT_IN, exited(0), False),
        (NOT_IN, Termination(), False),
        (IN, Termination(lease_expired=True), False),
        # Of containers, the first that failed, by time and then by name.
        (IN, of(at(2, "a", 4), at(1, "b", 3)), True),
        (IN, of(at(1, "a", 4), at(2, "b", 3)), False),
        (IN, of(at(10, "a", 3), at(9, "b", 4)), False),
        (IN, of(at(1, "b", 3), at(1, "a", 4)), False),
        (IN, of(a_container("a", 3), at(1, "b", 4)), False),
        (IN, of(at(1, "a", 0), at(2, "b", 3)), True),
        # With facts of containers the session's own code is not read.
        (IN, of(a_container("a"), exit_code=3), False),
        (IN, of(at(1, "a", 4), exit_code=3), False),
        (NOT_IN, of(a_container("a"), a_container("b", 0)), False),
        # Init containers only if the rule wants them.
        (IN, of(at(1, "setup", 3, init=True), at(2, "main", 4)), False),
        ({**IN, "includeInitContainers": True}, of(at(1, "setup", 3, init=True)), True),
        ({**NOT_IN, "includeInitContainers": False}, of(at(1, "setup", 4, init=True)), False),
        # A named container, whichever failed first.
        ({**IN, "containerName": "b"}, of(at(1, "a", 4), at(2, "b", 3)), True),
        ({**IN, "containerName": "a"}, of(at(1, "a", 4), at(2, "b", 3)), False),
        ({**IN, "containerName": "c"}, of(at(1, "a", 3)), False),
        ({**NOT_IN, "containerName": "a"}, of(at(1, "a", 0), at(2, "b", 4)), False),
        ({**NOT_IN, "containerName": "a"}, of(a_container("a"), at(2, "b", 4)), False),
        ({**IN, "containerName": "setup"}, of(at(1, "setup", 3, init=True)), False),
        (
            {**IN, "containerName": "setup", "includeInitContainers": True},
            of(at(1, "setup", 3, init=True)),
            True,
        ),
        ({**IN, "containerName": "main"}, exited(3), False),
        # Several pods have containers of one name.
        ({**IN, "containerName": "a"}, of(at(1, "a", 0), at(3, "a", 4), at(2, "a", 3)), True),
    ],
)
def test_exit_codes(rule: dict[str, Any], end: Termination, expected: bool) -> None:
    assert matches(rule, end) == expected


OOM = {"onConditions": ["OOMKilled"]}


def killed(seconds: int, name: str, exit_code: int | None = 137, **fields: Any) -> ContainerFacts:
    return at(seconds, name, exit_code, reason="OOMKilled", **fields)


@pytest.mark.parametrize(
    ("rule", "end", "expected"),
    [
        (OOM, of(killed(1, "a")), True),
        (OOM, exited(137), False),
        (OOM, of(at(1, "a", 137, reason="Error")), False),
        # A child of a process that succeeded may have been killed, too.
        (OOM, of(killed(1, "a", 0), at(2, "b", 1)), False),
        # The first failed container is looked at, not any.
        (OOM, of(at(1, "a", 1), killed(2, "b")), False),
        ({**OOM, "containerName": "b"}, of(at(1, "a", 1), killed(2, "b")), True),
        ({**OOM, "containerName": "a"}, of(at(1, "a", 1), killed(2, "b")), False),
        (OOM, of(killed(1, "setup", init=True)), False),
        ({**OOM, "includeInitContainers": True}, of(killed(1, "setup", init=True)), True),
        # A code that is unknown is not 0.
        (OOM, of(killed(1, "a", None)), True),
        (OOM, of(killed(1, "a", None), at(2, "b", 1)), False),
        (OOM, of(killed(1, "a", None, init=True)), False),
        ({**OOM, "containerName": "a"}, of(killed(1, "a", None)), True),
        ({**OOM, "containerName": "b"}, of(killed(1, "a", None)), False),
        # Stated for the whole session, it is nobody's in particular.
        (OOM, Termination(conditions=("OOMKilled",)), True),
        (OOM, Termination(reason="OOMKilled", exit_code=137), True),
        (OOM, Termination(reason="OOMKilled", exit_code=0), False),
        ({**OOM, "containerName": "a"}, Termination(conditions=("OOMKilled",)), False),
        ({**OOM, "containerName": "a"}, of(at(1, "a", 1), conditions=("OOMKilled",)), False),
    ],
)
def test_an_oom_kill_is_a_containers(
    rule: dict[str, Any], end: Termination, expected: bool
) -> None:
    assert matches(rule, end) == expected


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("Preempted", PREEMPTED),
        ("Preempted", Termination(conditions=("DisruptionTarget", "PreemptionByScheduler"))),
        ("Evicted", Termination(reason="Evicted", pod_message="The node was low on resource")),
        ("Evicted", Termination(conditions=("DisruptionTarget", "DeletionByTaintManager"))),
        ("DeadlineExceeded", Termination(reason="DeadlineExceeded")),
        ("Unschedulable", Termination(conditions=("Unschedulable",))),
    ],
)
def test_conditions_of_the_pod(name: str, end: Termination) -> None:
    other = {"Preempted", "Evicted", "DeadlineExceeded", "Unschedulable", "OOMKilled"} - {name}
    assert matches({"onConditions": [name]}, end)
    assert not matches({"onConditions": sorted(other)}, end)
    assert matches({"onConditions": [*sorted(other), name]}, end)
    # The container that a rule names has no say in them.
    assert matches({"onConditions": [name, "OOMKilled"], "containerName": "nobody"}, end)


def test_one_end_may_have_several_conditions() -> None:
    end = Termination(conditions=("Preempted",), containers=(killed(1, "main"),))
    assert matches(OOM, end)
    assert matches({"onConditions": ["Preempted"]}, end)
    assert decided(end).cause == "preempted"


def test_an_eviction_for_its_own_fault_is_not_evicted() -> None:
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
    end = Termination(reason="Evicted", pod_message=message)
    assert not matches({"onConditions": ["Evicted"]}, end)
    assert matches({"onCauses": ["limit_exceeded"]}, end)


SAYS = {"onTerminationMessage": {"pattern": "TRANSIENT"}}


@pytest.mark.parametrize(
    ("rule", "end", "expected"),
    [
        (SAYS, Termination(message="a TRANSIENT fault"), True),
        (SAYS, Termination(message="transient"), False),
        (SAYS, Termination(pod_message="TRANSIENT"), False),
        # Every container, whether it failed or not; of its own messages only.
        (SAYS, of(at(1, "a", 1), at(2, "b", 0, message="TRANSIENT")), True),
        (SAYS, of(at(1, "a", 1, message="other"), message="TRANSIENT"), False),
        (SAYS, of(at(1, "a", 1), message="TRANSIENT"), True),
        ({**SAYS, "containerName": "a"}, of(at(1, "a", 1, message="TRANSIENT")), True),
        ({**SAYS, "containerName": "a"}, of(at(1, "b", 1, message="TRANSIENT")), False),
        ({**SAYS, "containerName": "a"}, of(at(1, "a", 1), message="TRANSIENT"), False),
        ({**SAYS, "containerName": "a"}, Termination(message="TRANSIENT"), False),
        (SAYS, of(at(1, "a", 1, init=True, message="TRANSIENT")), False),
        (
            {**SAYS, "includeInitContainers": True},
            of(at(1, "a", 1, init=True, message="TRANSIENT")),
            True,
        ),
        # A message that a pod gave its session is an init container's, too.
        (SAYS, of(at(1, "a", 1, init=True, message="TRANSIENT"), message="TRANSIENT"), False),
    ],
)
def test_termination_messages(rule: dict[str, Any], end: Termination, expected: bool) -> None:
    assert matches(rule, end) == expected


@pytest.mark.parametrize(
    ("rule", "categories", "expected"),
    [
        ({"onFailureCategory": ["cuda"]}, ["cuda"], True),
        ({"onFailureCategory": ["net", "cuda"]}, ["cuda"], True),
        ({"onFailureCategory": ["cuda"]}, [], False),
        # The first category that matches is the session's only one.
        ({"onFailureCategory": ["cuda"]}, ["net", "cuda"], False),
        ({"onFailureCategory": ["net"]}, ["net", "cuda"], True),
    ],
)
def test_failure_categories(rule: dict[str, Any], categories: list[str], expected: bool) -> None:
    assert matches(rule, exited(1), *categories) == expected


def test_causes() -> None:
    assert matches({"onCauses": ["kernel_nonzero_exit", "unknown"]}, exited(1))
    assert matches({"onCauses": ["KERNEL_NONZERO_EXIT"]}, exited(1))
    assert not matches({"onCauses": ["unknown"]}, exited(1))


HOLDS: dict[str, Any] = {
    "onConditions": ["Evicted"],
    "onExitCodes": codes("In", 7),
    "onTerminationMessage": {"pattern": "oops"},
    "onFailureCategory": ["cuda"],
    "onCauses": ["evicted"],
    "onSignatures": ["ba9876543210", SIGNATURE],
}
FAILS: dict[str, Any] = {
    "onConditions": ["Preempted", "OOMKilled"],
    "onExitCodes": codes("NotIn", 7),
    "onTerminationMessage": {"pattern": "never"},
    "onFailureCategory": ["net"],
    "onCauses": ["preempted"],
    "onSignatures": ["ba9876543210"],
}


@pytest.mark.parametrize("failing", [None, *HOLDS])
def test_every_matcher_of_a_rule_must_hold(failing: str | None) -> None:
    assert HOLDS.keys() == FAILS.keys() == set(MATCHERS) - {"onPodMessage", "onSignatureTitle"}
    end = Termination(exit_code=7, conditions=("Evicted",), message="oops")
    rule = HOLDS if failing is None else {**HOLDS, failing: FAILS[failing]}
    assert matches(rule, end, "cuda") == (failing is None)


# Failure categories.


def category_of(end: Termination, *matchers: dict[str, Any]) -> str:
    return decided(end, categories=[category("it", *matchers)]).failure_category


@pytest.mark.parametrize(
    ("matcher", "end", "expected"),
    [
        (IN, exited(3), True),
        (IN, exited(4), False),
        (OOM, of(killed(1, "a")), True),
        (SAYS, Termination(message="TRANSIENT"), True),
        ({"onPodMessage": {"pattern": "low on"}}, Termination(pod_message="is low on"), True),
        ({"onPodMessage": {"pattern": "low on"}}, Termination(message="is low on"), False),
        ({**IN, "containerName": "b"}, of(at(1, "a", 4), at(2, "b", 3)), True),
        # Init containers are looked at, too.
        (IN, of(at(1, "setup", 3, init=True)), True),
        ({**IN, **SAYS}, exited(3), False),
        ({**IN, **SAYS}, exited(3, message="TRANSIENT"), True),
    ],
)
def test_a_category_is_told_by_its_matchers(
    matcher: dict[str, Any], end: Termination, expected: bool
) -> None:
    assert category_of(end, matcher) == ("it" if expected else "")


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({}, True),
        ({"onSignatureTitle": {"pattern": "^KeyError: .* \\(load:"}}, True),
        ({"onSignatureTitle": {"pattern": "(?i)keyerror"}, **IN}, False),
        ({"onSignatureTitle": {"pattern": "no label"}}, False),
        # The container that a matcher names has no part in the title.
        ({"containerName": "nobody"}, True),
    ],
)
def test_a_category_looks_into_the_title_of_the_signature(
    matcher: dict[str, Any], expected: bool
) -> None:
    wanted = {"onSignatureTitle": {"pattern": "KeyError"}, **matcher}
    title = "KeyError: 'label' (load:read)"
    end = exited(1, message="no label")
    found = decided(end, title=title, categories=[category("it", wanted)]).failure_category
    assert found == ("it" if expected else "")
    assert category_of(end, wanted) == "", "without a signature there is no title"


def test_one_matcher_of_a_category_is_enough() -> None:
    assert category_of(exited(3), SAYS, IN) == "it"
    assert category_of(exited(4), SAYS, IN) == ""


def test_a_cancelled_session_is_no_failure_of_any_category() -> None:
    assert category_of(Termination(status="cancelled", exit_code=3), IN) == ""
