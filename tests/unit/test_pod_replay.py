"""Replays what a real cluster reported of pods, with gaps: the executor's reports and the server's
judgement of them, with the wire between them."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes.pod_tracker import STEPS, SessionTracker
from executor.drivers.kubernetes.pod_trim import trimmed
from executor.drivers.protocol import Observation
from executor.reports import report
from retry.evidence.causes import classify
from retry.evidence.termination import Termination, termination_from_pod
from scheduler.wire import Report
from tests.unit.retry.recorded import LOGS, NAMES, NEVER_ENDED, PODS, recorded
from tests.unit.retry.test_pods_properties import damaged_pods, podlike

SESSION = "11111111-2222-4333-8444-555555555555"
KEY = LeaseKey(SESSION, 7)
SUCCESS = "success"

# What the pod's end means, from its first observation with a terminal phase on.
ENDS = {
    "deadline-exceeded": "deadline_exceeded",
    "deleted-graceful": "agent_transient",
    "evicted-by-api": "evicted",
    "evicted-by-api-kept": "evicted",
    "evicted-ephemeral-limit": "limit_exceeded",
    "evicted-node-pressure": "evicted",
    "exit-137-not-oom": "kernel_nonzero_exit",
    "exit-3": "kernel_nonzero_exit",
    "init-failed": "kernel_nonzero_exit",
    "node-lost": "evicted",
    "node-restart-never": "agent_transient",
    "oom-killed": "oom_killed",
    "out-of-cpu": "agent_transient",
    "preempted": "preempted",
    "preemptor": SUCCESS,
    "restarted-then-succeeded": SUCCESS,
    "succeeded": SUCCESS,
    "termination-log": SUCCESS,
    "termination-log-failed": "kernel_nonzero_exit",
}
# Seen before its end, this tells why a pod vanished.
SIGNS = {
    "preempted": ("PreemptionByScheduler", "preempted"),
    "evicted-by-api": ("EvictionByEvictionAPI", "evicted"),
    "evicted-by-api-kept": ("EvictionByEvictionAPI", "evicted"),
    "node-lost": ("DeletionByTaintManager", "evicted"),
    "invalid-image-name": ("InvalidImageName", "validation_error"),
}


@dataclass
class Replay:
    """A story, and all that it told."""

    name: str
    tracker: SessionTracker = field(init=False)
    observations: list[Observation] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tracker = SessionTracker(KEY, [self.name])

    def event(self, event: Any) -> None:
        self.shown.append(event["object"])
        tell = self.tracker.see_deleted if event["type"] == "DELETED" else self.tracker.see
        self.observations += tell(event["object"])

    def events(self, events: list[Any]) -> "Replay":
        for event in events:
            self.event(event)
        return self

    def relist(self, *pods: Any) -> "Replay":
        """Often enough for what is not there to be believed."""
        self.shown += pods
        for _ in range(3):
            self.observations += self.tracker.relist(pods)
        return self

    def check(self) -> None:
        steps = [STEPS.index(each.status) for each in self.observations if each.termination is None]
        assert steps == sorted(steps)
        ends = [each for each in self.observations if each.termination is not None]
        assert len(ends) == self.tracker.ended <= 1
        assert ends == self.observations[len(self.observations) - len(ends) :]

    def cause(self) -> str | None:
        """Return the server's cause of the end; None while there is none."""
        self.check()
        return cause_of(self.observations[-1]) if self.tracker.ended else None

    def expected_when_gone(self) -> str:
        """By the table of causes, of a pod that is no more."""
        if any(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in self.shown):
            return ENDS[self.name]
        sign, cause = SIGNS.get(self.name, ("", ""))
        return cause if sign and sign in json.dumps(self.shown) else "agent_transient"


def cause_of(end: Observation) -> str:
    """Over the wire, as JSON."""
    sent = report(KEY, end.status, 1.0, node=end.node, message=end.message,
                  termination=end.termination)  # fmt: skip
    read = Report.model_validate(json.loads(json.dumps({**sent, "seq": 1})))
    if read.status == "TERMINATED":
        assert Termination.from_json(read.termination).status == "terminated"
        return SUCCESS
    termination = replace(Termination.from_json(read.termination), status="error")
    return classify(termination).value


def log(name: str) -> list[Any]:
    text = (PODS / "watch" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def last(events: list[Any]) -> list[Any]:
    """Return the pods that a list shows after these events."""
    return [] if events[-1]["type"] == "DELETED" else [events[-1]["object"]]


def gaps(name: str) -> list[list[Any]]:
    """Every prefix of the log, and every log with one event removed."""
    events = log(name)
    prefixes = [events[:length] for length in range(len(events) + 1)]
    return prefixes + [[*events[:n], *events[n + 1 :]] for n in range(len(events))]


def test_the_table_names_every_log() -> None:
    assert {*ENDS} | NEVER_ENDED == {*LOGS}


@pytest.mark.parametrize("name", LOGS)
def test_a_whole_log_ends_as_the_table_says(name: str) -> None:
    events = log(name)
    replay = Replay(name).events(events)
    expected = replay.expected_when_gone()
    assert replay.cause() == expected
    assert replay.relist(*last(events)).cause() == expected
    assert expected == ENDS.get(name, SIGNS.get(name, ("", "agent_transient"))[1])


@pytest.mark.parametrize("name", LOGS)
def test_gaps_are_closed_by_a_list_of_what_is_left(name: str) -> None:
    events = log(name)
    for seen in gaps(name):
        replay = Replay(name).events(seen).relist(*last(events))
        assert replay.cause() == replay.expected_when_gone()


@pytest.mark.parametrize("name", ENDS)
def test_with_the_finalizer_no_gap_loses_the_end(name: str) -> None:
    events = [event for event in log(name) if event["type"] != "DELETED"]
    for seen in gaps(name):
        kept = [event for event in seen if event["type"] != "DELETED"]
        replay = Replay(name).events(kept).relist(*last(events))
        assert replay.cause() == ENDS[name]


@pytest.mark.parametrize("name", LOGS)
def test_a_watch_that_breaks_off_says_as_much_as_it_has_seen(name: str) -> None:
    for length in range(1, len(log(name)) + 1):
        seen = log(name)[:length]
        replay = Replay(name).events(seen).relist(*last(seen))
        ended = seen[-1]["type"] == "DELETED" or seen[-1]["object"]["status"]["phase"] in {
            "Succeeded",
            "Failed",
        }
        assert replay.cause() == (replay.expected_when_gone() if ended else None)


@pytest.mark.parametrize("name", sorted(NEVER_ENDED - {"invalid-image-name"}))
def test_a_pod_that_somebody_else_deletes_is_not_at_fault(name: str) -> None:
    replay = Replay(name).events(log(name))
    termination = replay.observations[-1].termination
    assert termination is not None
    assert "deleted_by_us" not in termination
    assert replay.cause() == "agent_transient"


@pytest.mark.parametrize("name", LOGS)
def test_only_a_lost_node_leaves_its_end_unfenced(name: str) -> None:
    observations = Replay(name).events(log(name)).observations[-1].termination
    assert observations is not None
    assert observations.get("unfenced", False) is (name == "node-lost")


def test_a_usual_life_is_told_step_by_step() -> None:
    observations = Replay("exit-3").events(log("exit-3")).observations
    assert [each.status for each in observations] == ["PREPARING", "PULLING", "RUNNING", "ERROR"]
    assert [each.node for each in observations] == ["", *["lab-node"] * 3]
    observations = Replay("deleted-graceful").events(log("deleted-graceful")).observations
    steps = ["PREPARING", "PULLING", "RUNNING", "TERMINATING", "ERROR"]
    assert [each.status for each in observations] == steps


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("image-pull-backoff", "main: ImagePullBackOff: Back-off pulling image"),
        ("invalid-image-name", "main: InvalidImageName: Failed to apply default image tag"),
        ("unschedulable-cpu", "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."),
        ("preempted", "PreemptionByScheduler: default-scheduler: preempting"),
        ("out-of-cpu", "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"),
    ],
)
def test_the_message_says_what_it_waits_for_or_ended_of(name: str, message: str) -> None:
    observations = Replay(name).events(log(name)).observations
    assert observations[-1].message.startswith(message)


@given(st.data())
def test_in_any_order_and_however_often_the_end_is_one_and_right(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(LOGS))
    events = [event for event in log(name) if event["type"] != "DELETED"]
    shown = data.draw(st.lists(st.sampled_from(events), max_size=2 * len(events)))
    replay = Replay(name)
    for event in shown:
        relisted = data.draw(st.booleans())
        if relisted:
            replay.shown.append(event["object"])
            replay.observations += replay.tracker.relist([event["object"]])
        else:
            replay.event(event)
        replay.check()
    ends = [event["object"]["status"]["phase"] in {"Succeeded", "Failed"} for event in shown]
    assert replay.tracker.ended == any(ends)
    if any(ends):
        assert replay.cause() == ENDS[name]
    replay.relist()
    assert replay.cause() in {ENDS.get(name), SIGNS.get(name, ("", ""))[1], "agent_transient"}


@given(st.lists(damaged_pods() | podlike, max_size=5), st.data())
def test_no_answer_of_a_cluster_is_too_odd(pods: list[Any], data: st.DataObject) -> None:
    replay = Replay(data.draw(st.sampled_from(NAMES)))
    for pod in pods:
        deleted = data.draw(st.booleans())
        see = replay.tracker.see_deleted if deleted else replay.tracker.see
        replay.observations += see(pod)
        replay.check()
    replay.relist()
    assert replay.cause() is not None


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_kept_fields_of_a_pod_give_the_same_result(name: str, ours: bool) -> None:
    whole = recorded(name)
    kept = trimmed(whole)
    assert len(json.dumps(kept)) < len(json.dumps(whole))
    assert trimmed(kept) == kept
    assert termination_from_pod(kept, deleted_by_us=ours) == termination_from_pod(
        whole, deleted_by_us=ours
    )


@given(damaged_pods())
def test_kept_fields_of_a_damaged_pod_give_the_same_result(pod: Any) -> None:
    kept = termination_from_pod(trimmed(pod))
    assert classify(kept) == classify(termination_from_pod(pod))
