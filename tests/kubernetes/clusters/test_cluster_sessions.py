"""Sessions of several ranks: they find each other, end together, and come back together."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.agent import path_of
from tests.kubernetes.clusters.land import NAMESPACE, Land, Site, disruption
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("clusters"), pytest.mark.slow]

RANKS = 3
POLICY = {"max_retries": 1, "max_preemption_retries": 1}
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
# Of the first attempt, those that nothing happens to need two seconds to stop.
STUBBORN = """
test "$REPRISE_ATTEMPT" = 0 || { beat; sleep 1; exit 0; }
echo "$REPRISE_RANK of $REPRISE_CLUSTER_SIZE at $REPRISE_RANK0_HOST"
trap 'sleep 2; beat; exit 9' TERM
beat
"""
WAITS = "sleep 600 & wait"


@pytest.fixture
def site(land: Land) -> Iterator[Site]:
    with land.open("west"):
        yield land.sites["west"]
    # Their services wait for a garbage collector, which an API server alone has not.
    for service in land.sites["west"].api.call("GET", SERVICES)["items"]:
        (owner,) = service["metadata"]["ownerReferences"]
        assert owner["name"].startswith(service["metadata"]["name"].rpartition("-")[0] + "-0")
        land.sites["west"].api.call("DELETE", f"{SERVICES}/{service['metadata']['name']}")


def test_the_failure_of_a_rank_ends_the_others_first(
    land: Land, site: Site, tmp_path: Path
) -> None:
    client, go = land.client, tmp_path / "go"
    fails = f'while [ ! -e {go} ]; do sleep 0.1; done; test "$REPRISE_RANK" = 1 && exit 7;'
    (root,) = land.submit(STUBBORN + fails + WAITS, cluster_size=RANKS, policy=POLICY)
    land.wait_for_status([root], "RUNNING")
    first, *_ = pods = site.pods(root)
    assert [pod["metadata"]["name"] for pod in pods] == [f"reprise-{root}-{n}" for n in range(3)]
    service = _service_of(site, first)
    assert service["spec"]["clusterIP"] == "None"
    (owner,) = service["metadata"]["ownerReferences"]
    assert owner["uid"] == first["metadata"]["uid"]
    for pod in pods:
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert first["spec"]["hostname"] == "rank-0"

    go.touch()
    land.wait_for_status([root], "TERMINATING")
    second = until(lambda: client.session(root).successor_id, "it is retried")
    land.wait_for_status([second], "RUNNING")
    names = {pod["metadata"]["name"] for pod in site.pods(second)}
    assert names == {f"reprise-{root}-{n}-1" for n in range(3)}
    assert _service_of(site, site.pods(second)[0]) != service
    land.wait_for_status([second], "TERMINATED")

    ended, decided = client.session(root), client.decision(root)
    assert (ended.status, ended.exit_code) == ("ERROR", 7), decided
    assert ended.finished_at is not None
    assert land.lives(root)[0][1] <= ended.finished_at.timestamp()
    land.lived_one_by_one([root], attempts=2)
    (container,) = decided.termination["containers"]
    assert container["exit_code"] == 7
    host = f"rank-0.{service['metadata']['name']}.{NAMESPACE}.svc"
    for rank in range(RANKS):
        assert f"{rank} of 3 at {host}\n" in client.logs(root).decode()
    until(lambda: not site.pods(root) and not site.pods(second), "no pod is left")


def test_a_preempted_rank_takes_the_others_with_it(land: Land, site: Site) -> None:
    (root,) = land.submit(STUBBORN + WAITS, cluster_size=RANKS, policy=POLICY)
    land.wait_for_status([root], "RUNNING")
    victim = site.pods(root)[1]
    site.set_status(victim, conditions=[disruption("PreemptionByScheduler")])
    site.api.call("DELETE", path_of(victim), {"gracePeriodSeconds": 30})
    until(lambda: land.tip(root).status == "TERMINATED", "it has come back")
    first, _ = land.client.attempts(root)
    assert (first.status, first.cause, first.exit_code) == ("ERROR", "preempted", 9)
    land.lived_one_by_one([root], attempts=2)


def test_a_cancelled_session_has_ended_when_all_its_ranks_have(land: Land, site: Site) -> None:
    (root,) = land.submit(STUBBORN + WAITS, cluster_size=RANKS, policy=POLICY)
    land.wait_for_status([root], "RUNNING")
    land.client.cancel(root)
    land.wait_for_status([root], "CANCELLED")
    ended = land.client.session(root).finished_at
    assert ended is not None
    assert land.lives(root)[0][1] <= ended.timestamp()
    until(lambda: not site.pods(root), "no pod is left")


def test_an_agent_that_is_killed_between_two_ranks(land: Land, site: Site, tmp_path: Path) -> None:
    """Some ranks are there and others are not: none of them stays, and all come back."""
    frail = land.sites["east"]
    frail.agent.kill()
    point = {
        "REPRISE_FAILPOINT": "executor.after_pod_create",
        "REPRISE_FAILPOINT_ONCE": str(tmp_path / "once"),
    }
    frail.start(**point)
    land.client.executor_cordon(site.name, "closed")
    with land.open("east"):
        (root,) = land.submit(STUBBORN + WAITS, cluster_size=RANKS, policy=POLICY)
        frail.agent.reap()
        assert len(frail.pods(root)) == 1
        frail.start(**point)
        until(lambda: land.tip(root).status == "TERMINATED", "it has come back")
    first, second = land.client.attempts(root)
    story = f"{list(islice(land.client.events(root), 20))}\n{frail.agent.stderr}"
    assert (first.cause, second.executor) == ("agent_transient", "east"), story
    land.lived_one_by_one([root], attempts=2)
    until(lambda: not frail.pods(), "no pod is left")


def test_all_ranks_fit_on_one_executor_or_none_starts(land: Land, site: Site) -> None:
    """Each has two nodes of 64 cores: three ranks would fit on both together."""
    with land.open("east"):
        (root,) = land.submit("exit 0", cluster_size=RANKS, resources={"cpu": "50"})
        (small,) = land.submit("exit 0", cluster_size=2, resources={"cpu": "50"})
        land.wait_for_status([small], "TERMINATED")
        waiting = until(lambda: land.client.session(root).why_pending, "it says why it waits")
        assert (land.client.session(root).status, waiting.reason) == ("PENDING", "no_fit")
        land.client.cancel(root)


def _service_of(site: Site, pod: Any) -> Any:
    return site.api.call("GET", f"{SERVICES}/{pod['spec']['subdomain']}")
