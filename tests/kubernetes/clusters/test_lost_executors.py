"""An executor is lost: what ran there comes back elsewhere, and is never there twice at a time."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.clusters.land import Land
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("clusters"), pytest.mark.slow]

LIVES_ON = 'test "$REPRISE_ATTEMPT" = 0 || { beat; exit 0; }; beats'
POLICY = {"max_retries": 0, "max_preemption_retries": 3}
EACH = 4


class Lost:
    """Three executors with sessions of their own, each lost in another way."""

    def __init__(self, land: Land, near: ApiServer, far: ApiServer):
        self.land = land
        self.far = far
        self.kubelet = Kubelet(far)
        self.kubelet.start()
        self.roots: dict[str, list[str]] = {}
        land.add("dead", far)
        land.add("cut-off", near)
        for name in ("dead", "east", "cut-off"):
            with land.open(name):
                self.roots[name] = land.submit(LIVES_ON, EACH, policy=POLICY)
                land.wait_for_status(self.roots[name], "RUNNING")
            assert {land.client.session(each).executor for each in self.roots[name]} == {name}
        # Nothing but the return of its agent ends what runs here.
        land.client.executor_change("east", unconfirmed_after=0)
        self.all = [root for roots in self.roots.values() for root in roots]

    def lose(self) -> None:
        """A whole cluster, with its nodes; an agent; the network between another one and us."""
        self.land.sites["dead"].agent.kill()
        self.kubelet.stop()
        self.far.stop_server()
        self.land.sites["east"].agent.kill()
        self.land.sites["cut-off"].proxy.cut(silently=False)

    def find(self) -> None:
        self.far.start()
        self.kubelet = Kubelet(self.far)
        self.kubelet.start()
        for name in ("dead", "east"):
            self.land.sites[name].start()
        self.land.sites["cut-off"].proxy.mend()


@pytest.fixture
def lost(land: Land, api: ApiServer, other_api: ApiServer) -> Iterator[Lost]:
    made = Lost(land, api, other_api)
    yield made
    made.kubelet.stop()
    land.client.executor_change("east", unconfirmed_after=None)


def test_sessions_of_a_lost_executor_come_back_elsewhere(land: Land, lost: Lost) -> None:
    client = land.client
    lost.lose()
    with land.open("west"):
        gone = lost.roots["dead"] + lost.roots["cut-off"]
        until(lambda: {land.tip(each).status for each in gone} == {"TERMINATED"}, "all come back")
        land.lived_one_by_one(gone, attempts=2)
        for root in gone:
            first, second = client.attempts(root)
            assert (first.status, first.cause) == ("ERROR", "agent_transient")
            assert client.decision(root).avoid_executor == first.executor
            assert client.decision(root).paid_by == "inline/preemption"
            assert second.executor == "west"
        # The agent that could not reach the server has ended its pods all the same.
        phases = [pod["status"]["phase"] for pod in land.sites["cut-off"].pods()]
        assert phases == ["Failed"] * EACH

        kept = lost.roots["east"]
        assert {client.session(each).status for each in kept} == {"TERMINATING"}
        assert len(land.sites["east"].pods()) == EACH
        lost.find()
        until(lambda: {land.tip(each).status for each in kept} == {"TERMINATED"}, "all come back")
        land.lived_one_by_one(lost.all, attempts=2)
    for name in lost.roots:
        until(partial(_is_clear, land, name), f"{name} has cleared its pods away")
        with land.open(name):
            (again,) = land.submit("exit 0")
            land.wait_for_status([again], "TERMINATED")
            assert client.session(again).executor == name


def _is_clear(land: Land, name: str) -> bool:
    return not land.sites[name].pods()
