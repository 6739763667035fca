"""The story of several pods, of ours and others' deletions, and of pods that are not there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.drivers.kubernetes.pod_trim import ALL_MESSAGES, MOST_STATUSES, trimmed
from executor.drivers.protocol import Observation

KEY = LeaseKey("s", 1)
NAMES = ("pod-0", "pod-1", "pod-2")
RUNNING: dict[str, Any] = {"running": {}}


def pod(
    name: str, phase: str = "Pending", *, node: str = "n1", deleted: bool = False, **fields: Any
) -> Any:
    """A pod with one container, whose state is `state`."""
    metadata = {"name": name, "uid": fields.pop("uid", f"uid-{name}"), "generation": 1}
    if deleted:
        metadata |= {"generation": 2, "deletionTimestamp": "2026-11-21T00:00:00Z"}
    state = fields.pop("state", {"waiting": {"reason": "ContainerCreating"}})
    main = {"name": "main", "state": state, "imageID": fields.pop("image_id", "")}
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": [main], **fields},
    }


def failed(name: str, at: str = "2026-11-21T00:01:00Z", code: int = 1, **fields: Any) -> Any:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at}}
    return pod(name, "Failed", state=state, **fields)


def succeeded(name: str) -> Any:
    state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    return pod(name, "Succeeded", state=state)


def running(name: str, **fields: Any) -> Any:
    return pod(name, "Running", state=RUNNING, **fields)


def evidence(observed: list[Observation]) -> Any:
    termination = observed[-1].termination
    assert termination is not None
    return termination


def heard(reason: str, **fields: Any) -> dict[str, Any]:
    about = {"name": "pod-0", "uid": "uid-pod-0", "fieldPath": "spec.containers{main}"}
    return {
        "type": "Normal",
        "reason": reason,
        "message": "so it is",
        "lastTimestamp": "2026-11-21T00:00:05Z",
        "involvedObject": about,
        **fields,
    }


@pytest.fixture
def one() -> SessionTracker:
    return SessionTracker(KEY, NAMES[:1])


@pytest.fixture
def three() -> SessionTracker:
    return SessionTracker(KEY, NAMES)


def brief(observed: list[Observation]) -> list[tuple[str, str]]:
    return [(each.status, each.message) for each in observed]


class TestOnePod:
    def test_each_step_is_told_once(self, one: SessionTracker) -> None:
        observations = one.see(pod("pod-0", node=""))
        observations += one.see(pod("pod-0")) + one.see(pod("pod-0"))
        observations += one.see(pod("pod-0", image_id="sha256:1"))
        observations += one.see(pod("pod-0", state={"waiting": {"reason": "CreateContainerError"}}))
        observations += one.see(running("pod-0")) + one.see(running("pod-0", deleted=True))
        assert brief(observations) == [
            ("PREPARING", ""),
            ("PULLING", ""),
            ("PREPARED", ""),
            ("CREATING", "main: CreateContainerError"),
            ("RUNNING", ""),
            ("TERMINATING", ""),
        ]
        assert {each.node for each in observations[1:]} == {"n1"}

    def test_a_pod_without_changes_is_still_reported(self, one: SessionTracker) -> None:
        assert one.relist([]) == []
        assert brief(one.see(pod("pod-0", node=""))) == [("PREPARING", "")]
        assert one.see(pod("pod-0", node="")) == []

    def test_later_observations_stay(self, one: SessionTracker) -> None:
        one.see(running("pod-0", deleted=True))
        for older in (running("pod-0"), pod("pod-0"), pod("pod-0", node="")):
            assert one.see(older) == []
        observations = one.see_deleted(pod("pod-0"))
        assert evidence(observations)["pod"]["status"]["phase"] == "Running"

    def test_an_older_status_of_the_same_generation_is_old(self, one: SessionTracker) -> None:
        one.see(running("pod-0", observedGeneration=2, message="new"))
        assert one.see(running("pod-0", observedGeneration=1, message="old")) == []

    def test_the_first_end_is_the_evidence(self, one: SessionTracker) -> None:
        observations = one.see(failed("pod-0", code=3))
        assert [each.status for each in observations] == ["ERROR"]
        assert evidence(observations)["pod"]["metadata"]["generation"] == 1
        assert evidence(observations)["reason"] == ""
        assert one.ended
        assert one.see(succeeded("pod-0")) == one.see_deleted(failed("pod-0", deleted=True)) == []
        assert (
            one.relist([]) == one.stop() == one.give_up("pod-0") == one.hear(heard("Killing")) == []
        )

    def test_it_has_to_be_missing_three_times_in_a_row(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        assert one.relist([]) == one.relist([]) == []
        assert one.relist([running("pod-0")]) == []
        assert one.relist([]) == one.relist([]) == []
        observations = one.relist([])
        assert [each.status for each in observations] == ["ERROR"]
        assert evidence(observations)["reason"] == "PodVanished"
        assert evidence(observations)["pod"]["status"]["phase"] == "Running"
        assert observations[0].node == "n1"

    def test_one_that_was_never_seen_vanishes_without_evidence(self, one: SessionTracker) -> None:
        observations = [*one.relist([]), *one.relist([]), *one.relist([])]
        assert len(observations) == 1
        assert evidence(observations)["reason"] == "PodVanished"
        assert "pod" not in evidence(observations)

    def test_an_end_that_was_seen_is_none_of_a_pod_that_vanished(self, one: SessionTracker) -> None:
        one = SessionTracker(KEY, NAMES[:2])
        one.see(failed("pod-0"))
        one.see_deleted(failed("pod-0"))
        observations = one.see_deleted(running("pod-1"))
        assert evidence(observations)["reason"] == ""

    def test_another_pod_of_its_name_means_that_ours_is_gone(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        observations = one.see(succeeded("pod-0") | {"metadata": {"name": "pod-0", "uid": "other"}})
        assert [each.status for each in observations] == ["ERROR"]
        assert evidence(observations)["pod"]["metadata"]["uid"] == "uid-pod-0"

    def test_pods_of_other_names_are_no_business_of_ours(self, one: SessionTracker) -> None:
        assert one.see(failed("pod-1")) == one.see_deleted(failed("pod-1")) == []

    def test_our_deletion_is_told_and_is_no_vanishing(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        assert brief(one.stop()) == [("TERMINATING", "")]
        assert one.to_delete == ["pod-0"]
        one.ask_to_delete("pod-0")
        observations = one.see_deleted(running("pod-0", deleted=True))
        assert (evidence(observations)["reason"], evidence(observations)["deleted_by_us"]) == (
            "",
            True,
        )
        assert observations[-1].stopped
        assert one.to_delete == []

    def test_our_request_does_not_take_over_somebody_elses(self, one: SessionTracker) -> None:
        one.see(running("pod-0", deleted=True))
        one.stop()
        one.ask_to_delete("pod-0")
        observations = one.see(failed("pod-0", deleted=True))
        assert "deleted_by_us" not in evidence(observations)

    def test_an_end_before_the_stop_is_no_stop(self, one: SessionTracker) -> None:
        observations = one.see(succeeded("pod-0"))
        assert (observations[-1].status, observations[-1].stopped) == ("TERMINATED", False)

    def test_one_that_outstays_its_deletion_ends_unfenced(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        one.stop()
        one.ask_to_delete("pod-0")
        observations = one.give_up("pod-0")
        assert [each.status for each in observations] == ["ERROR"]
        assert evidence(observations)["unfenced"] is True
        assert evidence(observations)["deleted_by_us"] is True
        assert one.ended

    def test_one_that_others_deleted_on_a_lost_node_ends_unfenced_too(
        self, three: SessionTracker
    ) -> None:
        """The node comes back never, and the other ranks are to stop before it is the end."""
        for name in NAMES:
            three.see(running(name))
        three.see(running("pod-1", deleted=True))
        assert three.to_delete == []
        three.give_up("pod-1")
        assert three.to_delete == ["pod-0", "pod-2"]
        assert not three.ended
        three.see(failed("pod-0"))
        observations = three.see(failed("pod-2"))
        assert evidence(observations)["unfenced"] is True
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-1"
        assert "deleted_by_us" not in evidence(observations)

    @pytest.mark.parametrize(("phase", "unfenced"), [("Failed", True), ("Succeeded", False)])
    def test_a_failed_pod_with_a_running_container(
        self, one: SessionTracker, phase: str, unfenced: bool
    ) -> None:
        observations = one.see(pod("pod-0", phase, state=RUNNING))
        assert evidence(observations).get("unfenced", False) is unfenced


class TestWhatItIsDoing:
    def test_core_events_say_it_until_it_runs(self, one: SessionTracker) -> None:
        one.see(pod("pod-0"))
        assert brief(one.hear(heard("Pulled"))) == [("PREPARED", "Pulled: so it is")]
        assert brief(one.hear(heard("Created"))) == [("CREATING", "Created: so it is")]
        assert brief(one.see(running("pod-0"))) == [("RUNNING", "")]
        assert one.hear(heard("Started")) == []
        warned = one.hear(heard("Unhealthy", type="Warning"))
        assert brief(warned) == [("RUNNING", "Unhealthy: so it is")]

    def test_reported_events_are_not_taken_back(self, one: SessionTracker) -> None:
        one.see(pod("pod-0"))
        one.hear(heard("Created"))
        stuck = pod("pod-0", state={"waiting": {"reason": "ImageInspectError"}})
        assert brief(one.see(stuck)) == [("CREATING", "main: ImageInspectError")]

    def test_a_node_that_does_not_answer_moves_nothing_back(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        observations = one.see(pod("pod-0", "Unknown", reason="NodeLost"))
        assert brief(observations) == [("RUNNING", "NodeLost")]

    def test_the_newest_event_counts(self, one: SessionTracker) -> None:
        one.see(pod("pod-0"))
        one.hear(heard("Scheduled"))
        assert one.hear(heard("Older", lastTimestamp="2026-11-21T00:00:04Z")) == []
        newer = heard("Newer", lastTimestamp=None, eventTime="2026-11-21T00:00:06.5Z")
        assert brief(one.hear(newer)) == [("PULLING", "Newer: so it is")]

    @pytest.mark.parametrize(
        "about",
        [
            {"name": "pod-1"},
            {"name": "pod-0", "uid": "other"},
            {"name": "pod-0", "fieldPath": "spec.initContainers{prep}"},
        ],
    )
    def test_events_of_others_move_nothing(self, one: SessionTracker, about: Any) -> None:
        one.see(pod("pod-0"))
        observations = one.hear(heard("Pulled", involvedObject=about))
        assert {each.status for each in observations} <= {"PULLING"}

    def test_the_pods_own_words_come_before_events(self, one: SessionTracker) -> None:
        one.see(pod("pod-0", state={"waiting": {"reason": "ErrImagePull", "message": "no"}}))
        assert one.hear(heard("BackOff", type="Warning")) == []

    def test_a_new_reason_is_told_within_a_step(self, one: SessionTracker) -> None:
        one.see(pod("pod-0"))
        observations = one.see(pod("pod-0", state={"waiting": {"reason": "ErrImagePull"}}))
        observations += one.see(pod("pod-0", state={"waiting": {"reason": "ImagePullBackOff"}}))
        assert brief(observations) == [
            ("PULLING", "main: ErrImagePull"),
            ("PULLING", "main: ImagePullBackOff"),
        ]


class TestRanks:
    def test_the_session_is_as_far_as_its_slowest_rank(self, three: SessionTracker) -> None:
        assert three.see(running("pod-0")) == [Observation(KEY, "PREPARING", "n1")]
        assert three.see(running("pod-1")) == []
        stuck = pod("pod-2", state={"waiting": {"reason": "ErrImagePull"}})
        assert brief(three.see(stuck)) == [("PULLING", "rank 2: main: ErrImagePull")]
        assert three.slowest == trimmed(stuck)
        assert [each.status for each in three.see(running("pod-2"))] == ["RUNNING"]

    def test_it_succeeds_when_all_have(self, three: SessionTracker) -> None:
        for name in NAMES:
            three.see(running(name))
        assert three.see(succeeded("pod-2")) == three.see(succeeded("pod-0")) == []
        assert three.to_delete == []
        observations = three.see(succeeded("pod-1"))
        assert [each.status for each in observations] == ["TERMINATED"]
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-0"

    def test_one_failure_stops_the_others_before_the_end(self, three: SessionTracker) -> None:
        three.relist([running("pod-0"), running("pod-1"), succeeded("pod-2")])
        observations = three.see(failed("pod-1", code=3))
        assert brief(observations) == [("TERMINATING", "")]
        assert three.to_delete == ["pod-0"]
        three.ask_to_delete("pod-0")
        assert three.see(running("pod-0", deleted=True)) == []
        assert not three.ended
        observations = three.see(failed("pod-0", code=143, deleted=True))
        assert [each.status for each in observations] == ["ERROR"]
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-1"
        assert "deleted_by_us" not in evidence(observations)
        assert not observations[-1].stopped

    def test_of_failures_in_one_list_the_first_by_time_counts(self, three: SessionTracker) -> None:
        late, early = failed("pod-0", "2026-11-21T00:00:09Z"), failed("pod-2")
        early["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = (
            "2026-11-21T00:00:01Z"
        )
        observations = three.relist([late, failed("pod-1", "2026-11-21T00:00:08Z"), early])
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-2"

    def test_of_failures_in_one_second_a_deleted_one_is_not_to_blame(
        self, three: SessionTracker
    ) -> None:
        """An agent that died has deleted the others, and the next one sees only what came of it."""
        observations = three.relist([failed(name, deleted=name != "pod-1") for name in NAMES])
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-1"

    def test_of_failures_seen_one_by_one_the_first_seen_counts(self, three: SessionTracker) -> None:
        three.see(failed("pod-2", "2026-11-21T00:00:09Z"))
        three.see(failed("pod-0", "2026-11-21T00:00:01Z"))
        observations = three.see(failed("pod-1", "2026-11-21T00:00:02Z"))
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-2"

    @pytest.mark.parametrize("deleted", [False, True])
    def test_a_rank_that_others_fail_for_is_the_one_to_blame(
        self, three: SessionTracker, deleted: bool
    ) -> None:
        for name in NAMES:
            three.see(running(name))
        preempted = {"type": "DisruptionTarget", "status": "True", "reason": "Preemption"}
        signs: Any = {"deleted": True} if deleted else {"conditions": [preempted]}
        three.see(running("pod-1", **signs))
        three.see(failed("pod-0"))
        three.ask_to_delete("pod-2")
        three.see(failed("pod-2", deleted=True))
        observations = three.see(failed("pod-1", **signs))
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-1"

    def test_a_rank_that_got_over_its_trouble_is_not_to_blame(self, three: SessionTracker) -> None:
        three.see(running("pod-1", deleted=True))
        three.see(succeeded("pod-1"))
        three.see(succeeded("pod-0"))
        observations = three.see(failed("pod-2"))
        assert evidence(observations)["pod"]["metadata"]["name"] == "pod-2"

    def test_a_vanished_rank_fails_the_session(self, three: SessionTracker) -> None:
        there = [running("pod-0"), running("pod-2")]
        three.relist([*there, running("pod-1")])
        for _ in range(2):
            three.relist(there)
        assert three.to_delete == []
        three.relist(there)
        assert three.to_delete == ["pod-0", "pod-2"]

    def test_one_that_turns_up_again_does_not_turn_the_session_back(
        self, three: SessionTracker
    ) -> None:
        there = [running("pod-0"), running("pod-2")]
        three.relist([*there, running("pod-1")])
        observations = [*three.relist(there), *three.relist(there), *three.relist(there)]
        assert [each.status for each in observations] == ["TERMINATING"]
        observations = three.relist([*there, running("pod-1", message="still here")])
        assert {each.status for each in observations} == {"TERMINATING"}

    @given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), max_size=25))
    def test_the_end_comes_exactly_when_all_are_over(self, seen: list[tuple[str, int]]) -> None:
        story = SessionTracker(KEY, NAMES)
        makers = (pod, running, succeeded, failed)
        ends: dict[str, int] = {}
        observations: list[Observation] = []
        for name, kind in seen:
            observations += story.see(makers[kind](name))
            if kind > 1:
                ends.setdefault(name, kind)
            assert story.ended == (ends.keys() == {*NAMES})
        finals = [each for each in observations if each.termination is not None]
        assert len(finals) == story.ended
        if finals:
            right = "TERMINATED" if set(ends.values()) == {2} else "ERROR"
            assert finals[0].status == right
            decisive = next((name for name, kind in ends.items() if kind == 3), "pod-0")
            assert evidence(finals)["pod"]["metadata"]["name"] == decisive


class TestTrimming:
    def test_messages_keep_their_end(self) -> None:
        kept = trimmed(pod("pod-0", message="a" + "é" * 4096))
        assert kept["status"]["message"] == "é" * 2048

    def test_labels_that_are_not_ours_go(self) -> None:
        whole = pod("pod-0")
        whole["metadata"]["labels"] = {"reprise.dev/rank": "0", "team": "x"}
        assert trimmed(whole)["metadata"]["labels"] == {"reprise.dev/rank": "0"}

    def test_many_containers_and_long_messages_fit(self) -> None:
        whole = pod("pod-0")
        waiting = {"waiting": {"reason": "x", "message": "y" * 10_000}}
        statuses = [{"name": f"c-{number}", "state": waiting} for number in range(1000)]
        whole["status"]["containerStatuses"] = statuses
        statuses[999]["state"] = {"terminated": {"exitCode": 3}}
        kept = trimmed(whole)["status"]["containerStatuses"]
        assert len(kept) == MOST_STATUSES
        assert [each["name"] for each in kept] == [*(f"c-{n}" for n in range(63)), "c-999"]
        assert (
            sum(len(each["state"].get("waiting", {}).get("message", "")) for each in kept)
            <= ALL_MESSAGES
        )

    @pytest.mark.parametrize("odd", [None, 3, "pod", [], {}, {"metadata": [], "status": 3}])
    def test_a_malformed_pod_is_an_empty_one(self, odd: Any) -> None:
        assert trimmed(odd) == trimmed({})


def test_the_end_of_a_sidecar_is_not_when_a_rank_failed(three: SessionTracker) -> None:
    def of_rank(name: str, at: str) -> Any:
        ended = failed(name, at)
        ended["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
        state = {"terminated": {"exitCode": 7, "finishedAt": "2026-11-21T00:00:01Z"}}
        ended["status"]["initContainerStatuses"] = [{"name": "proxy", "state": state}]
        return ended

    three.relist([running(name) for name in NAMES])
    pods = [of_rank(NAMES[0], "2026-11-21T00:00:05Z"), failed(NAMES[1], "2026-11-21T00:00:03Z", 4)]
    observations = three.relist([*pods, failed(NAMES[2], "2026-11-21T00:00:06Z")])
    pod = evidence(observations)["pod"]
    assert pod["metadata"]["name"] == NAMES[1]


class TestLastWords:
    """Tests of what a pod does not say of its end itself, and of what is not about its end."""

    def unhealthy(self, probe: str = "Liveness", **fields: Any) -> dict[str, Any]:
        words = f"{probe} probe failed: HTTP probe failed with statuscode: 500"
        return heard("Unhealthy", type="Warning", message=words, **fields)

    def killing(self, container: str = "main", **fields: Any) -> dict[str, Any]:
        words = f"Container {container} failed liveness probe, will be restarted"
        return heard("Killing", message=words, **fields)

    def test_a_probe_that_ended_it(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        for event in (self.unhealthy(), self.killing()):
            one.hear(event)
        observations = one.see(failed("pod-0", code=137))
        words = "Liveness probe failed: HTTP probe failed with statuscode: 500"
        assert evidence(observations)["pod_message"] == words

    def test_the_end_of_it_is_enough(self, one: SessionTracker) -> None:
        one.hear(self.killing())
        facts = evidence(one.see(failed("pod-0", code=137)))
        assert facts["pod_message"] == "Container main failed liveness probe"

    @pytest.mark.parametrize("probe", ["Liveness", "Readiness"])
    def test_a_probe_that_did_not(self, one: SessionTracker, probe: str) -> None:
        one.hear(self.unhealthy(probe))
        assert evidence(one.see(failed("pod-0", code=3)))["pod_message"] == ""

    def test_nor_one_of_another_container(self, one: SessionTracker) -> None:
        about = {"name": "pod-0", "fieldPath": "spec.initContainers{proxy}"}
        one.hear(self.killing("proxy", involvedObject=about))
        assert evidence(one.see(failed("pod-0", code=3)))["pod_message"] == ""

    def test_earlier_events_are_no_reason_of_the_end(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        one.hear(heard("NodeNotReady", type="Warning"))
        observations = one.see(failed("pod-0", code=3))
        assert brief(observations) == [("ERROR", "")]

    def test_the_rank_is_among_the_facts(self, three: SessionTracker) -> None:
        three.relist([running(name) for name in NAMES])
        others = [succeeded(NAMES[0]), succeeded(NAMES[1])]
        observations = three.relist([*others, failed(NAMES[2], code=3)])
        assert evidence(observations)["rank"] == 2

    def test_of_one_pod_there_is_none(self, one: SessionTracker) -> None:
        assert "rank" not in evidence(one.see(failed("pod-0", code=3)))

    def test_a_node_that_does_not_answer_is_told(self, one: SessionTracker) -> None:
        one.see(running("pod-0"))
        observations = one.see(pod("pod-0", "Unknown", state=RUNNING))
        assert brief(observations) == [("RUNNING", "Unknown: its node does not answer")]
