import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.evidence.causes import RetryCause, classify
from retry.evidence.ended import Ended
from retry.evidence.termination import (
    ContainerFacts,
    Termination,
    first_failed_container,
    message_tail,
)
from tests.unit.retry.build import a_container
from tests.unit.retry.strategies import json_values, terminations


def test_the_wire_form_is_read_and_written_back() -> None:
    wire = {
        "status": "cancelled",
        "exit_code": 137,
        "conditions": ["OOMKilled"],
        "reason": "Error",
        "message": "too much",
        "pod_message": "so says the node",
        "node": "n1",
        "lease_expired": True,
        "containers": [
            {
                "name": "main",
                "init": True,
                "exit_code": 0,
                "reason": "Completed",
                "message": "done",
                "finished_at": "2030-01-01T00:00:00Z",
            }
        ],
    }
    termination = Termination.from_json(wire)
    assert termination.conditions == ("OOMKilled",)
    assert termination.containers[0].exit_code == 0
    assert termination.to_json() == wire


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert Termination().to_json() == {}
    assert Termination(exit_code=0, containers=(ContainerFacts(),)).to_json() == {
        "exit_code": 0,
        "containers": [{}],
    }


@pytest.mark.parametrize(
    "obj",
    [
        None,
        5,
        "error",
        [],
        {"unheard": 1},
        {"status": "running"},
        {"status": 3},
        {"exit_code": True},
        {"exit_code": "1"},
        {"exit_code": 1.0},
        {"exit_code": 10**400},
        {"conditions": "OOMKilled"},
        {"conditions": [1, None, ["OOMKilled"]]},
        {"reason": ["Evicted"]},
        {"lease_expired": 1},
        {"containers": {"name": "main"}},
        {"containers": ["main", 7]},
        {"pod": "main"},
    ],
)
def test_malformed_facts_count_as_absent(obj: object) -> None:
    assert Termination.from_json(obj) == Termination()


def test_one_malformed_fact_does_not_spoil_the_others() -> None:
    obj = {"exit_code": 3, "status": "TERMINATED", "conditions": [None, "Evicted"], "node": 8}
    assert Termination.from_json(obj) == Termination(
        status="terminated", exit_code=3, conditions=("Evicted",)
    )


def test_text_that_cannot_be_stored_is_replaced() -> None:
    termination = Termination.from_json(
        {"message": "a\x00b\ud800c", "conditions": ["\udfff"], "containers": [{"name": "\x00"}]}
    )
    assert termination.message == "a\ufffdb\ufffdc"
    assert termination.conditions == ("\ufffd",)
    assert termination.containers[0].name == "\ufffd"
    assert Termination(reason="\x00").to_json() == {"reason": "\ufffd"}


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_messages_keep_their_end_between_characters(character: str) -> None:
    text = "start" + character * 5000
    kept = Termination(message=text).to_json()["message"]
    assert Termination(pod_message=text).to_json()["pod_message"] == kept
    assert text.endswith(kept)
    assert 4096 - len(character.encode()) < len(kept.encode()) <= 4096
    container = Termination(containers=(a_container(message=text),)).to_json()["containers"][0]
    assert container["message"] == kept


def test_short_messages_are_kept_whole() -> None:
    assert message_tail("x" * 4096) == "x" * 4096
    assert message_tail("x" + "y" * 4096) == "y" * 4096


FIRST, SECOND = "2030-01-01T00:00:01Z", "2030-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        ([], None),
        ([a_container("a", 0), a_container("b")], None),
        ([a_container("a", 0, finished_at=FIRST), a_container("b", 1, finished_at=SECOND)], "b"),
        ([a_container("a", 1, finished_at=SECOND), a_container("b", 2, finished_at=FIRST)], "b"),
        (
            [
                a_container("a", 1, finished_at=SECOND),
                a_container("z", 2, finished_at=FIRST, init=True),
            ],
            "z",
        ),
        ([a_container("b", 1, finished_at=FIRST), a_container("a", 2, finished_at=FIRST)], "a"),
        ([a_container("a", 1), a_container("b", 2, finished_at=SECOND)], "b"),
        ([a_container("a", 1, finished_at="never"), a_container("b", 1, finished_at=FIRST)], "b"),
        ([a_container("b", 1), a_container("a", 2)], "a"),
        (  # the same second, then half a second later, spelled so that text would sort wrongly
            [
                a_container("a", 1, finished_at="2030-01-01T00:00:01.5Z"),
                a_container("b", 2, finished_at="2030-01-01T00:00:01Z"),
            ],
            "b",
        ),
        (
            [
                a_container("a", 1, finished_at="2030-01-01T01:00:00Z"),
                a_container("b", 2, finished_at="2030-01-01T02:00:00+02:00"),
            ],
            "b",
        ),
        (
            [
                a_container("a", 1, finished_at="2030-01-01T01:00:00"),
                a_container("b", 2, finished_at="2030-01-01T00:30:00Z"),
            ],
            "b",
        ),
    ],
)
def test_the_first_failed_container(containers: list[ContainerFacts], name: str | None) -> None:
    found = first_failed_container(Termination(containers=tuple(containers)))
    assert (found and found.name) == name


def test_finish_times_may_be_seconds() -> None:
    containers = [
        {"name": "a", "exit_code": 1, "finished_at": 1_900_000_100},
        {"name": "b", "exit_code": 2, "finished_at": 1_900_000_099.5},
        {"name": "c", "exit_code": 3, "finished_at": "2030-03-17T17:48:19Z"},
        {"name": "d", "exit_code": 4, "finished_at": 10**400},
        {"name": "e", "exit_code": 4, "finished_at": True},
        {"name": "f", "exit_code": 4, "finished_at": float("nan")},
    ]
    termination = Termination.from_json({"containers": containers})
    assert Termination.from_json(termination.to_json()) == termination
    assert [each.finished_at for each in termination.containers[3:]] == ["", "", ""]
    assert Ended(termination).exit_code == 3
    assert Ended(Termination(containers=termination.containers[:2])).exit_code == 2


def test_the_exit_code_is_the_first_failed_containers_or_the_sessions() -> None:
    failed = (a_container("a", 4, finished_at=SECOND), a_container("b", 5, finished_at=FIRST))
    assert Ended(Termination(exit_code=1, containers=failed)).exit_code == 5
    assert Ended(Termination(exit_code=1, containers=(a_container("a"),))).exit_code == 1
    assert Ended(Termination(exit_code=0)).exit_code == 0
    assert Ended(Termination()).exit_code is None


@given(json_values)
def test_any_json_becomes_a_termination_that_classifies_and_can_be_stored(obj: Any) -> None:
    termination = Termination.from_json(obj)
    assert classify(termination) in RetryCause
    stored = json.dumps(termination.to_json(), allow_nan=False, ensure_ascii=False)
    assert "\x00" not in stored
    stored.encode()
    assert Termination.from_json(json.loads(stored)) == termination


def test_only_the_part_of_a_message_that_is_stored_is_read() -> None:
    cut = Termination(reason="Evicted", message="exceeds" + " " * 4096)
    assert classify(cut) is classify(Termination.from_json(cut.to_json())) is RetryCause.EVICTED


@given(terminations, st.text())
def test_stored_evidence_has_the_same_cause(termination: Termination, padding: str) -> None:
    long = Termination(
        reason=termination.reason,
        conditions=termination.conditions,
        message=padding * 300 + termination.message,
        pod_message=padding * 300 + termination.pod_message,
    )
    for original in (termination, long):
        stored = Termination.from_json(original.to_json())
        assert classify(stored) is classify(original)
        assert Ended(stored).exit_code == Ended(original).exit_code
