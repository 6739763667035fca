"""When a run whose planned node is refused goes back, and when its plan stands."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import ApiRefusal, Exists, NotThere, Transient
from executor.drivers.kubernetes.planned_pods import PlannedPods, conclusion
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_remover import PodRemover
from executor.drivers.kubernetes.pod_run import Known, PodRun
from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.drivers.protocol import UNSTARTED, Observation
from executor.runs import RunFiles

KEY = LeaseKey("session", 1)
NAMES, NODES = ("pod-0", "pod-1"), ("a", "b")
PATIENCE = 15.0
WORDS = "0/2 nodes are available: 1 Insufficient cpu."
WAITS = {"waiting": {"reason": "ContainerCreating"}}
RUNS = {"running": {"startedAt": "2026-11-21T00:00:00Z"}}
STOPPED = {"terminated": {"exitCode": 0, "startedAt": "2026-11-21T00:00:00Z"}}
NEVER_THERE = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}


class PlayedCluster:
    """Notes what it is asked to delete; `refusal` is raised, and each of `refusals` before it."""

    def __init__(self) -> None:
        self.refusal: ApiRefusal | None = None
        self.refusals: list[ApiRefusal] = []
        self.reads: list[ApiRefusal | dict[str, Any]] = []
        self.asked: list[tuple[str, str, int | None, str | None]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def delete(
        self, path: str, uid: str, grace: int | None, *, version: str | None = None
    ) -> None:
        self.asked.append((path, uid, grace, version))
        self.meanwhile()
        if self.refusals:
            raise self.refusals.pop(0)
        if self.refusal is not None:
            raise self.refusal

    async def call(self, method: str, _path: str) -> dict[str, Any]:
        assert method == "GET"
        found = self.reads.pop(0)
        if isinstance(found, ApiRefusal):
            raise found
        return found


class Played:
    """A run of two ranks with planned nodes, beside a cluster that is played."""

    def __init__(self, directory: Path):
        self.cluster = PlayedCluster()
        tracker = SessionTracker(KEY, NAMES)
        self.run = PodRun(KEY, RunFiles(KEY, directory), Place("here", NAMES, NODES), tracker)
        self.run.created = True
        self.abandoned: list[tuple[Observation, int | None]] = []
        self.passed_on: list[Observation] = []
        cluster = cast("Cluster", self.cluster)
        remover = PodRemover(cluster, asyncio.Semaphore(1), lambda _run, _name: None)
        self.surveys = 0
        self.planned = PlannedPods(
            *(PATIENCE, remover),
            survey=self._survey,
            abandon=self._abandon,
            pass_on=self._pass_on,
        )

    async def _survey(self) -> None:
        self.surveys += 1

    async def _abandon(self, run: PodRun, verdict: Observation) -> None:
        assert self.surveys == 1
        self.abandoned.append((verdict, run.grace))

    def _pass_on(self, _run: PodRun, seen: Iterable[Observation]) -> None:
        self.passed_on += seen

    def show(self, rank: int, **fields: Any) -> None:
        """What the API server says of a pod."""
        shown = pod(rank, **fields)
        self.run.known[NAMES[rank]] = Known.of(shown)
        self.run.tracker.see(shown)

    def at(self, now: float) -> str | None:
        """Look at the run; the node for whose refusal it has to go back."""
        refusal = self.planned.refused(self.run, now)
        return refusal and refusal.node

    async def hand_back(self) -> None:
        refusal = self.planned.refused(self.run, PATIENCE)
        assert refusal is not None
        assert refusal.words == WORDS
        await self.planned.hand_back(self.run, refusal)


def pod(
    rank: int, *, refused: bool = False, deleted: bool = False, node: str = "", **status: Any
) -> dict[str, Any]:
    """A pod of one container, whose state is `state`."""
    name, state = NAMES[rank], status.pop("state", WAITS)
    metadata = {"name": name, "uid": f"uid-{rank}", "resourceVersion": f"{rank}7"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-21T00:00:09Z"
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main"}], **({"nodeName": node} if node else {})},
        "status": {
            "phase": "Pending",
            "conditions": [{**refusal, "message": WORDS}] if refused else [],
            "containerStatuses": [{"name": "main", "state": state}] if node else [],
            **status,
        },
    }


def play(directory: Path, story: Callable[[Played], Coroutine[Any, Any, None]]) -> None:
    async def on_a_loop() -> None:
        await story(Played(directory))

    asyncio.run(on_a_loop())


def test_each_rank_has_its_own_time(tmp_path: Path) -> None:
    async def story(played: Played) -> None:
        played.show(0, refused=True)
        assert played.at(0) is None  # its other pod was not seen yet
        played.show(1, refused=False)
        assert played.at(10) is None
        played.show(1, refused=True)
        assert played.at(20) is None
        played.show(0, node="a")
        assert played.at(26) is None
        assert played.at(34) is None
        assert played.at(35) == "b"
        played.show(1, refused=False)
        assert played.at(36) is None
        played.show(1, refused=True)
        assert played.at(50) is None
        assert played.at(65) == "b"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("other", "goes_back"),
    [
        ({"node": "b"}, True),
        ({"node": "b", "state": {"waiting": {"reason": "ImagePullBackOff"}}}, True),
        ({}, True),
        ({"node": "b", "phase": "Running", "state": RUNS}, False),
        ({"node": "b", "initContainerStatuses": [{"name": "first", "state": RUNS}]}, False),
        ({"node": "b", "initContainerStatuses": [{"name": "first", "state": STOPPED}]}, False),
        (
            {
                "node": "b",
                "initContainerStatuses": [{"name": "beside", "state": WAITS, "lastState": STOPPED}],
            },
            False,
        ),
        ({"node": "b", "phase": "Failed", "reason": "OutOfcpu"}, False),
        ({"node": "b", "deleted": True}, False),
    ],
)
def test_the_plan_stands_once_a_rank_has_started(
    tmp_path: Path, other: dict[str, Any], goes_back: bool
) -> None:
    async def story(played: Played) -> None:
        played.show(0, refused=True)
        played.show(1, **other)
        played.at(0)
        assert played.at(PATIENCE) == ("a" if goes_back else None)
        played.run.grace = 30  # somebody has asked for its end
        assert played.at(PATIENCE + 1) is None

    play(tmp_path, story)


def test_the_refused_pod_goes_first_if_it_is_as_it_was(tmp_path: Path) -> None:
    async def story(played: Played) -> None:
        played.show(0, node="a")
        played.show(1, refused=True)
        played.at(0)
        await played.hand_back()
        path = f"/api/v1/namespaces/here/pods/{NAMES[1]}"
        assert played.cluster.asked == [(path, "uid-1", 0, "17")]
        # The other one has a node, which has to say that it is done with it.
        assert played.abandoned == [(Observation(KEY, UNSTARTED, "b", WORDS), 1)]
        assert not played.run.created

    play(tmp_path, story)


def test_nothing_is_lost_of_a_run_that_stays(tmp_path: Path) -> None:
    """The refused pod got its node in the same moment, and a stop came."""

    async def story(played: Played) -> None:
        played.show(0, node="a")
        played.show(1, refused=True)
        played.at(0)
        seen = Observation(KEY, "PULLING", "a")

        def meanwhile() -> None:
            assert not played.run.created
            played.run.held_back.append(seen)
            played.run.grace = 30

        played.cluster.meanwhile = meanwhile
        played.cluster.refusal = Exists("the object has been modified (409)")
        await played.hand_back()
        assert played.abandoned == []
        assert (played.run.created, played.run.verdict) == (True, None)
        assert [each.status for each in played.passed_on] == ["PULLING", "TERMINATING"]
        assert played.run.tracker.to_delete == list(NAMES)
        played.run.grace = None
        assert played.at(PATIENCE + 1) is None

    play(tmp_path, story)


END = Observation(KEY, "ERROR")


@pytest.mark.parametrize("state", [WAITS, NEVER_THERE])
def test_a_run_of_which_nothing_started_goes_back(tmp_path: Path, state: dict[str, Any]) -> None:
    async def story(played: Played) -> None:
        verdict = played.run.verdict = Observation(KEY, UNSTARTED, "a", WORDS)
        played.show(1, node="b", phase="Failed", state=state)
        assert conclusion(played.run, END) == verdict

    play(tmp_path, story)


def test_a_run_that_started_meanwhile_has_failed(tmp_path: Path) -> None:
    async def story(played: Played) -> None:
        played.run.verdict = Observation(KEY, UNSTARTED, "a", WORDS)
        played.show(1, node="b", phase="Failed", state=STOPPED)
        end = conclusion(played.run, END)
        assert (end.status, end.node) == ("ERROR", "")
        assert end.message == f"node a, planned for one of its pods, refused it: {WORDS}"
        assert end.termination is not None
        assert end.termination["reason"] == "PodCreateFailed"
        assert "unfenced" not in end.termination

    play(tmp_path, story)


def test_a_run_that_may_still_be_there_has_failed(tmp_path: Path) -> None:
    """The node of a rank is silent, so nobody saw it stop."""

    async def story(played: Played) -> None:
        played.run.verdict = Observation(KEY, UNSTARTED, "a", WORDS)
        played.show(1, node="b", deleted=True)
        played.run.tracker.give_up(NAMES[1])
        end = conclusion(played.run, END)
        assert end.termination is not None
        assert end.termination["unfenced"] is True

    play(tmp_path, story)


def test_other_runs_end_as_they_did(tmp_path: Path) -> None:
    async def story(played: Played) -> None:
        played.show(0, node="a", state=RUNS)
        assert conclusion(played.run, END) is END
        # Its second pod could not be made.
        verdict = played.run.verdict = Observation(KEY, UNSTARTED, message="no rights")
        assert conclusion(played.run, END) is verdict

    play(tmp_path, story)


LOST = Transient("connection reset")
GONE, CHANGED = NotThere("not found (404)"), Exists("the object has changed (409)")


@pytest.mark.parametrize(
    ("refusals", "reads"),
    [
        ([LOST], []),
        ([LOST, GONE], []),
        ([LOST, Transient("busy", unsure=False), GONE], []),
        # Our finalizer is on it, so that it is still there.
        ([LOST, CHANGED], [LOST, pod(1, deleted=True)]),
        ([LOST, CHANGED], [GONE]),
    ],
    ids=["not_done", "done", "done_and_busy", "held", "gone_when_read"],
)
def test_a_deletion_whose_answer_is_lost_is_asked_for_again(
    tmp_path: Path, refusals: list[ApiRefusal], reads: list[ApiRefusal | dict[str, Any]]
) -> None:
    async def story(played: Played) -> None:
        refused(played)
        played.cluster.refusals, played.cluster.reads = [*refusals], [*reads]
        await played.hand_back()
        assert len(played.abandoned) == 1
        assert (played.cluster.refusals, played.cluster.reads) == ([], [])
        assert {asked[3] for asked in played.cluster.asked} == {"17"}

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("refusals", "reads"),
    [
        ([GONE], []),
        ([Transient("busy", unsure=False)], []),
        ([LOST, CHANGED], [pod(1, node="b")]),
        ([LOST, CHANGED], [pod(1, node="b", deleted=True)]),
    ],
    ids=["somebody_elses", "surely_not_done", "bound", "bound_and_deleted"],
)
def test_a_pod_that_may_have_run_is_not_handed_back(
    tmp_path: Path, refusals: list[ApiRefusal], reads: list[ApiRefusal | dict[str, Any]]
) -> None:
    async def story(played: Played) -> None:
        refused(played)
        played.cluster.refusals, played.cluster.reads = [*refusals], [*reads]
        await played.hand_back()
        assert played.abandoned == []
        assert (played.run.created, played.run.verdict) == (True, None)

    play(tmp_path, story)


def refused(played: Played) -> None:
    """The node of its second pod has refused it for too long."""
    played.show(0, node="a")
    played.show(1, refused=True)
    assert played.at(0) is None
