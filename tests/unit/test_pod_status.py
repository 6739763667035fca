"""Tests of whether a pod has started: row by row, and for all that a cluster has said."""

from typing import Any

import pytest
from hypothesis import given

from executor.drivers.kubernetes.pod_trim import trimmed
from retry.evidence.causes import RetryCause, classify
from scheduler.core.pod_status import Progress, StartState, assess, evidence
from tests.unit.retry.recorded import LOGS, NAMES, condition, container, recorded, watched
from tests.unit.retry.test_pods_properties import damaged_pods, podlike

# Of the recorded pods, at the moments that their names describe.
STATES = {
    "crash-loop-backoff": (Progress.FAILED, RetryCause.START_FAILURE),
    "err-image-never-pull": (Progress.FAILED, RetryCause.IMAGE_PULL_FAILURE),
    "err-image-pull": (Progress.SUSPECT, RetryCause.IMAGE_PULL_FAILURE),
    "image-pull-backoff": (Progress.FAILED, RetryCause.IMAGE_PULL_FAILURE),
    "invalid-image-name": (Progress.FAILED, RetryCause.VALIDATION_ERROR),
    "unschedulable-cpu": (Progress.WAITING, RetryCause.SCHEDULER_TIMEOUT),
    "unschedulable-selector": (Progress.WAITING, RetryCause.SCHEDULER_TIMEOUT),
    "volume-mount-stuck": (Progress.INITIALIZING, RetryCause.START_FAILURE),
    "running": (Progress.RUNNING, None),
    "succeeded": (Progress.FINISHED, None),
}
PHASES = {
    "Running": Progress.RUNNING,
    "Succeeded": Progress.FINISHED,
    "Failed": Progress.FAILED,
    "Unknown": Progress.FAILED,
}


def pod(phase: str = "Pending", *, node: str = "n1", **spec: Any) -> Any:
    named = {"nodeName": node} if node else {}
    return {"metadata": {"labels": {}}, "spec": {**named, **spec}, "status": {"phase": phase}}


def waiting(reason: str, *, phase: str = "Pending", init: bool = False) -> Any:
    """A pod whose second container waits for this reason."""
    made = pod(phase)
    container(made, "first", init=init, waiting={"reason": "ContainerCreating"})
    container(made, "second", init=init, waiting={"reason": reason, "message": "so it is said."})
    status = made["status"]["initContainerStatuses" if init else "containerStatuses"][1]
    status["image"] = "busybox:1"
    return made


def brief(state: StartState) -> tuple[Progress, RetryCause | None]:
    return state.progress, state.cause


@pytest.mark.parametrize("rank", ["", "rank 2: "])
def test_a_volume_that_cannot_be_mounted_is_no_image_that_is_pulled(rank: str) -> None:
    # Clusters before 1.29 do not say that the sandbox is missing still.
    made = recorded("volume-mount-stuck")
    made["status"]["conditions"] = []
    assert assess(made).cause is RetryCause.IMAGE_PULL_FAILURE
    heard = f'{rank}FailedMount: MountVolume.SetUp failed for volume "v" : secret "s" not found'
    state = assess(made, heard)
    assert brief(state) == (Progress.INITIALIZING, RetryCause.START_FAILURE)
    assert state.message == "its volumes cannot be mounted"
    facts = evidence(made, RetryCause.START_FAILURE, heard)
    assert (facts.pod_message, classify(facts)) == (heard, RetryCause.START_FAILURE)


@pytest.mark.parametrize(
    ("reason", "cause", "words"),
    [
        ("SignatureValidationFailed", "image_pull_failure", "the signature of its image busybox:1"),
        ("RROUnsupported", "start_failure", "its node cannot make its mounts read-only"),
        ("PostStartHookError", "start_failure", "it could not be started"),
    ],
)
def test_permanent_reasons_fail_at_once(reason: str, cause: str, words: str) -> None:
    state = assess(waiting(reason))
    assert brief(state) == (Progress.FAILED, RetryCause(cause))
    assert words in state.message
    assert classify(evidence(waiting(reason), RetryCause(cause))) == cause


@pytest.mark.parametrize("name", STATES)
def test_recorded_pods(name: str) -> None:
    state = assess(recorded(name))
    assert brief(state) == STATES[name]
    assert assess(trimmed(recorded(name))).progress is state.progress
    if state.cause is not None:
        assert classify(evidence(recorded(name), state.cause)) is state.cause


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize(
    ("reason", "cause", "advice"),
    [
        ("InvalidImageName", RetryCause.VALIDATION_ERROR, "Check that the image exists"),
        ("ImagePullBackOff", RetryCause.IMAGE_PULL_FAILURE, "Check that the image exists"),
        ("ErrImageNeverPull", RetryCause.IMAGE_PULL_FAILURE, "Check that the image exists"),
        ("CrashLoopBackOff", RetryCause.START_FAILURE, "ask the cluster's administrator"),
        ("CreateContainerError", RetryCause.START_FAILURE, "ask the cluster's administrator"),
        ("CreateContainerConfigError", RetryCause.START_FAILURE, "ask the cluster's administrator"),
        ("StartError", RetryCause.START_FAILURE, "ask the cluster's administrator"),
        ("RunContainerError", RetryCause.START_FAILURE, "ask the cluster's administrator"),
        ("ContainerCannotRun", RetryCause.START_FAILURE, "ask the cluster's administrator"),
    ],
)
def test_some_reasons_fail_at_once(reason: str, cause: RetryCause, advice: str, init: bool) -> None:
    state = assess(waiting(reason, init=init))
    assert brief(state) == (Progress.FAILED, cause)
    assert state.message.startswith("container second: ")
    assert f"({reason}: so it is said)" in state.message
    assert advice in state.verdict
    assert ("busybox:1" in state.message) is (advice == "Check that the image exists")
    assert classify(evidence(waiting(reason, init=init), cause)) is cause


@pytest.mark.parametrize("reason", ["ErrImagePull", "RegistryUnavailable", "ImageInspectError"])
def test_some_reasons_may_pass(reason: str) -> None:
    state = assess(waiting(reason))
    assert brief(state) == (Progress.SUSPECT, RetryCause.IMAGE_PULL_FAILURE)
    assert "its image busybox:1 cannot be pulled" in state.message
    assert classify(evidence(waiting(reason), RetryCause.IMAGE_PULL_FAILURE)) is state.cause


@pytest.mark.parametrize(
    ("reason", "message", "progress", "cause"),
    [
        ("CreateContainerError", "failed to reserve container name", "SUSPECT", "agent_transient"),
        ("RunContainerError", "container init was OOM-killed", "FAILED", "oom_killed"),
    ],
)
def test_a_message_can_say_what_a_reason_means(
    reason: str, message: str, progress: str, cause: str
) -> None:
    seen = waiting(reason)
    seen["status"]["containerStatuses"][-1]["state"]["waiting"]["message"] = message
    state = assess(seen)
    assert brief(state) == (Progress[progress], RetryCause(cause))
    assert f"({reason}: {message})" in state.message
    assert classify(evidence(seen, RetryCause(cause))) == cause


def test_the_rows_are_read_from_the_top_over_all_containers() -> None:
    both = waiting("ErrImagePull")
    container(both, "third", waiting={"reason": "CreateContainerError"})
    assert assess(both).cause is RetryCause.START_FAILURE
    container(both, "last", init=True, waiting={"reason": "ImagePullBackOff"})
    assert assess(both).cause is RetryCause.IMAGE_PULL_FAILURE
    assert assess(waiting("ImagePullBackOff", phase="Running")).progress is Progress.FAILED


@pytest.mark.parametrize("phase", PHASES)
def test_phases(phase: str) -> None:
    state = assess(pod(phase))
    assert state.progress is PHASES[phase]
    if phase == "Unknown":
        assert state.cause is RetryCause.AGENT_TRANSIENT
        assert state.message == "node n1 does not answer"


def test_a_failed_pod_says_what_it_failed_of() -> None:
    state = assess(recorded("evicted-node-pressure"))
    assert brief(state) == (Progress.FAILED, RetryCause.EVICTED)
    assert "Evicted: " in state.message
    assert assess(recorded("oom-killed")).cause is RetryCause.OOM_KILLED


def test_without_a_node_it_waits() -> None:
    bare = pod(node="")
    assert brief(assess(bare)) == (Progress.WAITING, RetryCause.SCHEDULER_TIMEOUT)
    assert classify(evidence(bare, RetryCause.SCHEDULER_TIMEOUT)) is RetryCause.SCHEDULER_TIMEOUT
    condition(bare, "PodScheduled", "False", reason="Unschedulable", message="0/3 nodes fit.")
    assert assess(bare).message == "no node has been found for the pod (0/3 nodes fit)"
    condition(bare, "PodScheduled", "False", reason="SchedulingGated", message="gated")
    assert "(SchedulingGated: gated)" in assess(bare).message


class TestInitializing:
    """Tests of what a pod with a node waits for: an image, or its start."""

    def test_an_image(self) -> None:
        made = pod()
        container(made, "main", waiting={"reason": "ContainerCreating"})
        made["status"]["containerStatuses"][0]["image"] = "big:1"
        condition(made, "PodReadyToStartContainers")
        state = assess(made)
        assert brief(state) == (Progress.INITIALIZING, RetryCause.IMAGE_PULL_FAILURE)
        assert state.message == "the image big:1 of container main is being pulled"
        assert classify(evidence(made, RetryCause.IMAGE_PULL_FAILURE)) is state.cause

    def test_its_volumes(self) -> None:
        made = pod()
        container(made, "main", waiting={"reason": "ContainerCreating"})
        condition(made, "PodReadyToStartContainers", "False")
        state = assess(made)
        assert brief(state) == (Progress.INITIALIZING, RetryCause.START_FAILURE)
        assert classify(evidence(made, RetryCause.START_FAILURE)) is RetryCause.START_FAILURE

    def test_a_node_that_has_not_looked_at_it(self) -> None:
        assert assess(pod()).cause is RetryCause.START_FAILURE

    def test_an_init_container(self) -> None:
        made = pod()
        container(made, "download", init=True, running={})
        container(made, "main", waiting={"reason": "PodInitializing"})
        state = assess(made)
        assert brief(state) == (Progress.INITIALIZING, RetryCause.START_FAILURE)
        assert state.message == "init container download runs"

    def test_not_a_sidecar(self) -> None:
        """It runs for as long as the pod, and the next image is what is waited for."""
        made = pod(initContainers=[{"name": "proxy", "restartPolicy": "Always", "image": "p"}])
        container(made, "proxy", init=True, running={})
        container(made, "main", waiting={"reason": "PodInitializing"})
        for each in (made, trimmed(made)):
            assert assess(each).cause is RetryCause.IMAGE_PULL_FAILURE
        made["status"]["phase"] = "Running"
        assert assess(made).progress is Progress.RUNNING

    def test_whatever_else_a_container_waits_for(self) -> None:
        state = assess(waiting("Throttled"))
        assert brief(state) == (Progress.INITIALIZING, RetryCause.START_FAILURE)
        assert state.message == "container second waits (Throttled: so it is said)"

    def test_containers_whose_images_are_there(self) -> None:
        made = pod()
        container(made, "main", waiting={"reason": "ContainerCreating"})
        made["status"]["containerStatuses"][0]["imageID"] = "sha256:1"
        assert brief(assess(made)) == (Progress.INITIALIZING, RetryCause.START_FAILURE)


@pytest.mark.parametrize("nothing", [None, {}, [], "pod", pod("Odd"), {"status": {"phase": 1}}])
def test_a_malformed_pod_is_unknown_and_never_a_success(nothing: Any) -> None:
    assert brief(assess(nothing)) == (Progress.UNKNOWN, RetryCause.AGENT_TRANSIENT)
    facts = evidence(nothing, RetryCause.AGENT_TRANSIENT)
    assert classify(facts) is RetryCause.AGENT_TRANSIENT


def test_a_rank_is_named() -> None:
    made = waiting("ImagePullBackOff")
    made["metadata"]["labels"]["reprise.dev/rank"] = "2"
    assert assess(made).message.startswith("rank 2: container second: ")
    assert evidence(made, RetryCause.START_FAILURE).rank == 2
    made["status"] = {"phase": "Running"}
    assert assess(made).message == ""


def test_a_crash_says_how_it_ended() -> None:
    assert "its last exit code is 1" in assess(recorded("crash-loop-backoff")).message


def test_a_fact_that_stands_higher_in_the_table_of_causes_wins() -> None:
    made = waiting("ImagePullBackOff")
    condition(made, "DisruptionTarget", reason="PreemptionByScheduler")
    assert classify(evidence(made, RetryCause.IMAGE_PULL_FAILURE)) is RetryCause.PREEMPTED


def test_our_own_deletion_is_no_fact() -> None:
    made = waiting("ImagePullBackOff")
    made["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    facts = evidence(made, RetryCause.IMAGE_PULL_FAILURE)
    assert classify(facts) is RetryCause.IMAGE_PULL_FAILURE


@pytest.mark.parametrize("name", NAMES)
def test_messages_fit_and_lose_no_advice(name: str) -> None:
    made = recorded(name)
    for each in made["status"].get("containerStatuses", []):
        state = each.get("state", {}).get("waiting")
        if state is not None:
            state["message"] = "x" * 10_000
        each["image"] = "y" * 1_000
    state = assess(made)
    assert len(state.verdict) <= 1024
    assert not state.advice or state.verdict.endswith(f"{state.advice}.")


@pytest.mark.parametrize("name", LOGS)
def test_the_same_is_seen_in_what_the_executor_keeps(name: str) -> None:
    for each in watched(name):
        assert assess(trimmed(each)) == assess(each)


@given(damaged_pods() | podlike)
def test_no_pod_is_too_odd(odd: Any) -> None:
    state = assess(odd)
    assert assess(odd) == state
    assert len(state.verdict) <= 1024
    assert (state.cause is None) is (state.progress in {Progress.RUNNING, Progress.FINISHED})
    if state.cause is not None:
        rows = list(RetryCause)
        assert rows.index(classify(evidence(odd, state.cause))) <= rows.index(state.cause)
