"""Leases name the nodes that rounds planned, and refused plans are nobody's failure."""

from typing import Any
from uuid import UUID

import pytest

from scheduler.models import Executor, Lease
from sessions_app.db import steps
from sessions_app.models import Project, Session, SessionEvent
from tests.agent import Agent, agent
from tests.factories import project, submit, user
from tests.invariants import check_all

FULL = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity."


@pytest.fixture
def at() -> Project:
    return project()


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=[node("a"), node("b")])


def node(name: str, cpu: str = "4", **more: Any) -> dict[str, Any]:
    return {"name": name, "allocatable": {"cpu": cpu}, **more}


def waiting(at: Project, count: int, cpu: str, **fields: Any) -> list[UUID]:
    owner = user(superuser=True)
    return [submit(at, owner=owner, resources={"cpu": cpu}, **fields).pk for _ in range(count)]


def nodes_of(played: Agent) -> list[list[str]]:
    return [each["nodes"] for each in played.answer["leases"]]


def refuse(played: Agent, session: UUID, node: str, reason: str, **fields: Any) -> str:
    """The agent hands an accepted lease back, as its cluster has refused the node."""
    item = {
        "session_id": str(session),
        "fencing_token": played.tokens[session],
        "reason": reason,
        "own_trouble": True,
        "refused_node": node,
        **fields,
    }
    (outcome,) = played.ask("return", {"returns": [item]})["outcomes"]
    played.tokens.pop(session, None)
    return str(outcome["outcome"])


def test_a_lease_names_a_node_for_each_rank(at: Project, played: Agent) -> None:
    waiting(at, 1, "3", priority=2)
    (gang,) = waiting(at, 1, "1", cluster_size=4, priority=1)
    played.lease()
    assert nodes_of(played) == [["a"], ["a", "b", "b", "b"]]
    assert Lease.objects.get(session=gang).nodes == ["a", "b", "b", "b"]
    listed = Executor.objects.get().leases.get(session=gang)
    assert listed.nodes == ["a", "b", "b", "b"]


def test_planned_nodes_count_until_the_run_is_seen_on_one(at: Project, played: Agent) -> None:
    (first,) = waiting(at, 1, "3")
    played.nodes = [node("b")]
    played.lease()
    # With both nodes there, the first fit would be another one.
    played.nodes = [node("a", "8"), node("b")]
    waiting(at, 1, "5")
    waiting(at, 1, "4")
    played.lease()
    assert nodes_of(played) == [["a"]]
    # Its cluster has put it elsewhere after all.
    played.report(first, "RUNNING", node="a")
    played.lease()
    assert nodes_of(played) == [["b"]]


def test_an_executor_may_leave_nodes_to_its_cluster(at: Project, played: Agent) -> None:
    Executor.objects.update(placement="cluster")
    waiting(at, 2, "3")
    played.lease()
    assert nodes_of(played) == [[], []]
    assert not Lease.objects.filter(nodes__isnull=False).exists()


def test_a_node_gets_no_more_pods_than_it_can_hold(at: Project, played: Agent) -> None:
    played.nodes = [node("a", max_pods=2), node("b", max_pods=1)]
    waiting(at, 5, "0")
    played.lease()
    assert nodes_of(played) == [["a"], ["a"], ["b"]]


def test_a_refused_plan_costs_the_session_nothing(at: Project, played: Agent) -> None:
    (session,) = waiting(at, 1, "2")
    for count in (1, 2):
        played.lease()
        assert nodes_of(played) == [["a"]]
        played.report(session, "PREPARING")
        assert refuse(played, session, "a", FULL) == "applied"
        row = Session.objects.get(pk=session)
        assert (row.status, row.lease_returns, row.placement_refusals) == ("PENDING", 0, count)
        assert row.avoid_executors == []
        assert Executor.objects.get().refusals == {"a": ["cpu"]}
    event = SessionEvent.objects.filter(type="session.placement_refused").latest("id")
    assert event.data["reason"] == f"one: node a: {FULL}"
    # Without a new report of its nodes, the refused one is planned with less.
    played.lease(nodes=None)
    assert nodes_of(played) == [["b"]]
    played.report(session, "PREPARING")
    assert refuse(played, session, "b", FULL) == "applied"
    assert Executor.objects.get().refusals == {"a": ["cpu"], "b": ["cpu"]}
    # After three refusals it is its cluster's.
    played.lease()
    assert Executor.objects.get().refusals == {}
    assert nodes_of(played) == [[]]
    assert check_all() == []


def test_no_round_sees_a_returned_session_without_the_refusal(
    at: Project, played: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit tells both."""
    (session,) = waiting(at, 1, "2")
    played.lease()
    played.report(session, "PREPARING")
    seen: list[tuple[str, dict[str, list[str]]]] = []

    def look(place: str) -> None:
        if place == "return.before_commit":
            seen.append((Session.objects.get(pk=session).status, Executor.objects.get().refusals))

    monkeypatch.setattr(steps, "failpoint", look)
    assert refuse(played, session, "a", FULL) == "applied"
    assert seen == [("PENDING", {"a": ["cpu"]})]


def test_ranks_go_back_if_the_node_of_another_rank_is_refused(at: Project, played: Agent) -> None:
    """The first rank had a node, and had not started."""
    (gang,) = waiting(at, 1, "3", cluster_size=2)
    played.lease()
    assert nodes_of(played) == [["a", "b"]]
    played.report(gang, "PREPARING")
    played.report(gang, "PREPARING", node="a", message=f"rank 1: {FULL}")
    assert refuse(played, gang, "b", FULL) == "applied"
    row = Session.objects.get(pk=gang)
    assert (row.status, row.node, row.lease_returns) == ("PENDING", "", 0)
    assert Executor.objects.get().refusals == {"b": ["cpu"]}
    assert not Lease.objects.exists()
    # There is no room for both now.
    played.lease(nodes=None)
    assert nodes_of(played) == []
    played.lease()
    assert nodes_of(played) == [["a", "b"]]
    assert check_all() == []


def test_what_a_tenants_rules_forbid_makes_no_node_look_full(at: Project, played: Agent) -> None:
    (session,) = waiting(at, 1, "2")
    played.lease()
    played.report(session, "PREPARING")
    words = "0/2 nodes are available: 1 node(s) had volume node affinity conflict."
    assert refuse(played, session, "a", words) == "applied"
    assert Executor.objects.get().refusals == {}
    played.lease()
    assert nodes_of(played) == [[]]


def test_a_run_with_a_node_cannot_be_refused(at: Project, played: Agent) -> None:
    (session,) = waiting(at, 1, "2")
    played.lease()
    played.report(session, "PULLING", node="a")
    assert refuse(played, session, "a", FULL) == "invalid"
    assert Executor.objects.get().refusals == {}
    assert Session.objects.get(pk=session).status == "PULLING"
