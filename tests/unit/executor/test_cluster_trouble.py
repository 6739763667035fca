"""Tests of whose trouble a refusal is, and when it is over."""

import asyncio
from typing import Any, cast

import pytest

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes import trouble as cluster_trouble
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    NamespaceTransient,
    NamespaceTrouble,
    OwnTrouble,
    Transient,
)
from executor.drivers.kubernetes.trouble import MAX_PROJECTS, ClusterTrouble

QUOTA = NamespaceTrouble("exceeded quota: few (403)")
WEBHOOK = NamespaceTransient("failed calling webhook (500)", unsure=False)
AWAY = Transient("connection refused", unsure=False)


class Played:
    """A cluster with an answer to a dry run for each namespace; None is a yes."""

    def __init__(self) -> None:
        self.answers: dict[str, ApiRefusal | None] = {}
        self.asked: list[str] = []

    async def create(self, path: str, body: Any, *, dry: bool) -> Any:
        assert dry
        self.asked.append(path)
        answer = self.answers.get(body["metadata"]["namespace"])
        if answer is not None:
            raise answer
        return body

    async def call(self, _method: str, path: str) -> Any:
        """All namespaces exist."""
        return {"metadata": {"name": path}}


def pod(project: str, kind: str = "Pod") -> dict[str, Any]:
    annotations = {pod_names.PROJECT: project}
    metadata = {"name": "p", "namespace": project, "annotations": annotations}
    return {"kind": kind, "metadata": metadata}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setattr(cluster_trouble, "PROBE_SECONDS", 0.001)
    return Played()


@pytest.fixture
def mended() -> list[str]:
    return []


@pytest.fixture
def troubles(cluster: Played, mended: list[str]) -> ClusterTrouble:
    made = ClusterTrouble(cast("Cluster", cluster), lambda: mended.append("yes"))
    made.watch_answered()
    return made


def probe(troubles: ClusterTrouble) -> None:
    """For a while."""

    async def some() -> None:
        probing = asyncio.create_task(troubles.probe())
        await asyncio.sleep(0.1)
        probing.cancel()

    asyncio.run(some())


def test_a_broken_namespace_is_one_projects_trouble(
    cluster: Played, troubles: ClusterTrouble, mended: list[str]
) -> None:
    cluster.answers = {"a": QUOTA}
    troubles.refused(pod("a"), QUOTA)
    troubles.refused(pod("b"), WEBHOOK)
    assert (troubles.text, set(troubles.of_projects)) == ("", {"a", "b"})
    probe(troubles)
    assert (troubles.of_projects, mended) == ({"a": str(QUOTA)}, ["yes"])
    # It has found room for a smaller one.
    troubles.made(pod("a"))
    assert set(troubles.of_projects) == {"a"}
    cluster.answers = {"a": Exists("it is there by now")}
    probe(troubles)
    assert troubles.of_projects == {}


def test_a_cluster_that_is_away_is_everybodys_trouble(
    cluster: Played, troubles: ClusterTrouble
) -> None:
    cluster.answers = {"a": AWAY}
    troubles.refused(pod("a"), AWAY)
    assert (troubles.text, troubles.of_projects) == (str(AWAY), {})
    probe(troubles)
    assert troubles.text == str(AWAY)
    # That this namespace is gone is something else.
    cluster.answers = {"a": NamespaceTrouble("not found (404)")}
    probe(troubles)
    assert troubles.text == ""


def test_transient_trouble_is_over_when_a_pod_is_made(troubles: ClusterTrouble) -> None:
    troubles.refused(pod("a"), WEBHOOK)
    troubles.refused(pod("a"), AWAY)
    troubles.refused(pod("b"), WEBHOOK)
    troubles.made(pod("a"))
    assert (troubles.text, set(troubles.of_projects)) == ("", {"b"})


def test_nobody_looks_for_the_end_of_what_nobody_waits_for(
    cluster: Played, troubles: ClusterTrouble
) -> None:
    troubles.refused(pod("a"), QUOTA)
    troubles.forget(["a", "c"])
    probe(troubles)
    assert (troubles.of_projects, cluster.asked) == ({}, [])


def test_the_refused_pod_is_tried_again(cluster: Played, troubles: ClusterTrouble) -> None:
    refusal = OwnTrouble("Unauthorized (401)")
    refusal.object = pod("a", "Service")
    cluster.answers = {"a": refusal}
    troubles.refused(pod("a"), refusal)
    probe(troubles)
    assert set(cluster.asked) == {"/api/v1/namespaces/a/services"}


def test_no_more_is_told_than_is_read(troubles: ClusterTrouble) -> None:
    for number in range(MAX_PROJECTS + 5):
        troubles.refused(pod(f"p{number}"), QUOTA)
    assert len(troubles.of_projects) == MAX_PROJECTS
