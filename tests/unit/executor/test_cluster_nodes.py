"""Tests of what nodes have and what is free on them, as the scheduler of a cluster counts."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from executor.drivers.kubernetes.api import Cluster, Listed
from executor.drivers.kubernetes.nodes import NodeSurvey, requests_of


def container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"name": "c", "resources": {"requests": requests}, **more}


def amounts(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, str]:
    found = requests_of({"spec": spec, "status": status or {}})
    return {name: str(amount.normalize()) for name, amount in found.items()}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, "1.5"),
        ({"containers": [container("1")], "initContainers": [container("3")]}, "3"),
        ({"containers": [container("1")], "initContainers": [container("2", **SIDECAR)]}, "3"),
        # A sidecar runs beside the init containers that come after it, not beside those before.
        (
            {
                "containers": [container("1")],
                "initContainers": [container("4"), container("2", **SIDECAR), container("3")],
            },
            "5",
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, "1.25"),
        (
            {
                "containers": [container("1")],
                "resources": {"requests": {"cpu": "4"}},
                "overhead": {"cpu": "1"},
            },
            "5",
        ),
    ],
)
def test_the_amounts_kept_for_a_pod(spec: dict[str, Any], cpu: str) -> None:
    assert amounts(spec)["cpu"] == cpu


def test_a_container_that_shrinks_keeps_what_it_has_until_it_has_shrunk() -> None:
    spec = {"containers": [container("1", "1Gi")]}
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    assert amounts(spec, status) == {"cpu": "3", "memory": "1073741824"}


def test_unreadable_amounts_count_for_nothing() -> None:
    assert amounts({"containers": [container("many", "1")]}) == {"memory": "1"}
    assert amounts({}) == {}


def node(name: str, **spec: Any) -> dict[str, Any]:
    ready = spec.pop("ready", "True")
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "conditions": [{"type": "Ready", "status": ready}],
        "images": [{"names": ["image"]}] * 50,
    }
    return {"metadata": {"name": name, "labels": {"zone": "a"}}, "spec": spec, "status": status}


def test_a_node_that_holds_as_many_pods_as_it_may_has_nothing_free() -> None:
    full = node("a")
    full["status"]["allocatable"]["pods"] = "2"
    (listed,) = asyncio.run(survey(Played([full], [on("a", "1"), on("a", "1")])))
    assert listed["free"] == {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}


def on(node: str, cpu: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"nodeName": node, "containers": [container(cpu)]}}


class Played:
    def __init__(self, nodes: list[Any], *pages: list[Any]):
        self.answers = {"/api/v1/nodes": [nodes], "/api/v1/pods": [*pages]}
        self.fields: list[str] = []

    async def pages(self, path: str, *, fields: str = "") -> AsyncIterator[Listed]:
        self.fields.append(fields)
        await asyncio.sleep(0)
        for items in self.answers[path]:
            yield Listed(items, "1", 0.0)


async def survey(played: Played) -> list[Any]:
    looking = NodeSurvey(cast("Cluster", played), 60, "one")
    task = asyncio.create_task(looking.keep())
    while not looking.nodes:
        await asyncio.sleep(0)
    task.cancel()
    return looking.nodes


def test_a_survey_that_is_asked_for_is_newer_than_the_question() -> None:
    """All who ask while one survey runs share the next one."""

    async def story() -> None:
        played = Played([node("a")], [])
        looking = NodeSurvey(cast("Cluster", played), 60, "one")
        task = asyncio.create_task(looking.keep())
        while not looking.nodes:
            await asyncio.sleep(0)
        played.answers["/api/v1/pods"] = [[on("a", "3")]]
        played.fields.clear()
        await asyncio.gather(*(looking.renew() for _ in range(5)))
        task.cancel()
        (found,) = looking.nodes
        assert found["free"]["cpu"] == "1"
        # Two surveys, of nodes and of pods: that of the first, and that of all others.
        assert len(played.fields) == 4

    asyncio.run(story())


def test_a_node_says_how_many_pods_of_ours_it_can_hold() -> None:
    mine = on("a", "1")
    mine["metadata"]["labels"] = {"reprise.dev/executor": "one"}
    few = node("a")
    few["status"]["allocatable"]["pods"] = "5"
    (listed,) = asyncio.run(survey(Played([few], [mine, on("a", "0"), on("a", "0")])))
    assert listed["max_pods"] == 3


def test_room_that_no_pod_holds_is_free() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    played = Played(
        [node("a", taints=[taint]), node("b"), node("cordoned", unschedulable=True),
         node("gone", ready="Unknown")],
        [on("a", "1"), on("b", "3")],
        [on("a", "500m"), on("b", "3"), on("nowhere", "1")],
    )  # fmt: skip
    first, second = asyncio.run(survey(played))
    assert first["name"] == "a"
    assert first["allocatable"] == {"cpu": "4", "memory": "8589934592", "nvidia.com/gpu": "2"}
    assert first["free"] == {"cpu": "2.5", "memory": "8589934592", "nvidia.com/gpu": "2"}
    assert first["taints"] == [taint]
    assert first["labels"] == {"zone": "a"}
    # A pod can be bound past what there is: the kubelet sends it back.
    assert second["free"]["cpu"] == "0"
    assert "status.phase!=Failed" in played.fields[1]
