"""A retry runs on another node than the run before it, wherever there is one."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from reprise_client.wire import LeaseKey

from executor.drivers.protocol import Observation, Order
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script
from executor.runs import NOWHERE, RunFiles
from scheduler.models import Executor
from sessions_app.core.states import Status
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests.agent import Agent, agent
from tests.factories import executor, named_policy, project, submit, tip, user
from tests.invariants import check_all

APART: dict[str, Any] = {
    "retryLimit": 9,
    "backoff": {"initialDelay": "0s"},
    "antiAffinity": {"mode": "node"},
    "rules": [{"name": "again", "action": "Retry", "onConditions": ["Preempted", "Evicted"]}],
}


@pytest.fixture
def at() -> Project:
    made = project()
    named_policy("apart", project=made, **APART)
    return made


def on(*names: str, name: str = "", cpu: str = "4") -> Agent:
    """An agent that has called in with nodes of these names."""
    nodes = [{"name": each, "allocatable": {"cpu": cpu}} for each in names]
    return heard(agent(name, nodes=nodes))


def heard(played: Agent) -> Agent:
    """The agent, known to be alive; it has taken nothing yet."""
    played.lease(limits={"max_sessions": 0})
    Executor.objects.filter(pk=played.executor.pk).update(max_sessions=1000)
    return played


def evicted(session: Session, played: Agent, node: str) -> Session:
    """The retry, due at once, of a session that fails on a node."""
    assert played.lease() == [session.pk]
    fail(session, played, node)
    return tip(session)


def fail(session: Session, played: Agent, node: str) -> None:
    played.start(session.pk)
    facts = {"conditions": ["Evicted"], "node": node}
    report = played.reporting(session.pk, Status.ERROR, node=node, termination=facts)
    assert played.send(report) == ["applied"]
    retries_dispatch()


def avoided(played: Agent) -> str:
    (lease,) = played.answer["leases"]
    node: str = lease["avoid_node"]
    return node


def apart(at: Project, **fields: Any) -> Session:
    return submit(at, retry_policies=["apart"], **fields)


def test_the_retry_goes_to_the_executor_with_another_node(at: Project) -> None:
    one, two = on("a"), on("b")
    child = evicted(apart(at), one, "a")
    assert child.avoid_node == "a"
    assert one.lease() == []
    assert two.lease() == [child.pk]
    assert avoided(two) == ""
    assert check_all() == []


def test_nodes_of_two_executors_that_have_the_same_name_are_two(at: Project) -> None:
    one, two = on("n1"), on("n1")
    child = evicted(apart(at), one, "n1")
    assert one.lease() == []
    assert two.lease() == [child.pk]
    assert avoided(two) == ""


def test_an_executor_with_another_node_is_told_which_one_to_leave(at: Project) -> None:
    played = on("a", "b")
    child = evicted(apart(at), played, "a")
    plain = submit(at)
    assert played.lease() == [child.pk, plain.pk]
    leases = {lease["session_id"]: lease["avoid_node"] for lease in played.answer["leases"]}
    assert leases == {str(child.pk): "a", str(plain.pk): ""}


def test_on_the_only_node_there_is_the_retry_runs(at: Project) -> None:
    played = on("a")
    child = evicted(apart(at), played, "a")
    assert child.avoid_node == "a"
    assert played.lease() == [child.pk]
    assert avoided(played) == ""
    assert check_all() == []


def test_only_the_node_of_the_most_recent_run_is_avoided(at: Project) -> None:
    played = on("a", "b")
    child = evicted(apart(at), played, "a")
    grandchild = evicted(child, played, "b")
    assert (child.avoid_node, grandchild.avoid_node) == ("a", "b")
    assert played.lease() == [grandchild.pk]
    assert avoided(played) == "b"


def test_a_retry_comes_back_to_a_node_that_was_avoided_before(at: Project) -> None:
    one, two = on("a"), on("b")
    child = evicted(apart(at), one, "a")
    grandchild = evicted(child, two, "b")
    assert two.lease() == []
    assert one.lease() == [grandchild.pk]


def test_a_policy_without_it_avoids_nothing(at: Project) -> None:
    named_policy("anywhere", project=at, **{**APART, "antiAffinity": {"mode": "none"}})
    one, two = on("a"), on("b")
    child = evicted(submit(at, retry_policies=["anywhere"]), one, "a")
    assert one.lease() == [child.pk]
    assert two.lease() == []


def test_other_nodes_that_are_too_small_are_none(at: Project) -> None:
    played = agent(
        nodes=[
            {"name": "big", "allocatable": {"cpu": "8"}},
            {"name": "small", "allocatable": {"cpu": "2"}},
        ]
    )
    child = evicted(apart(at, resources={"cpu": "4"}), heard(played), "big")
    other = on("large", cpu="4")
    assert played.lease() == []
    assert other.lease() == [child.pk]
    last = evicted(apart(at, resources={"cpu": "6"}), played, "big")
    assert other.lease() == []
    assert played.lease() == [last.pk]
    assert avoided(played) == ""


def test_another_node_that_is_full_just_now_is_waited_for(at: Project) -> None:
    played = on("a", "b")
    child = evicted(apart(at, resources={"cpu": "4"}), played, "a")
    urgent = [submit(at, priority=1, resources={"cpu": "4"}) for _ in range(2)]
    assert set(played.lease()) == {each.pk for each in urgent}
    assert child.status == "PENDING"
    on_b = next(each for each in played.answer["leases"] if each["nodes"] == ["b"])
    played.start(UUID(on_b["session_id"]))
    played.succeed(UUID(on_b["session_id"]))
    assert played.lease() == [child.pk]
    assert avoided(played) == "a"


@pytest.mark.parametrize(
    "unfit", ["silent", "cordoned", "takes nothing", "bound", "small", "avoided"]
)
def test_it_does_not_wait_for_an_executor_that_cannot_help(at: Project, unfit: str) -> None:
    one = on("a")
    two = Agent(executor("two", projects=(project(),) if unfit == "bound" else ()))
    two.nodes = [{"name": "b", "allocatable": {"cpu": "1" if unfit == "small" else "4"}}]
    heard(two)
    child = evicted(apart(at, resources={"cpu": "2"}), one, "a")
    changes: dict[str, dict[str, Any]] = {
        "silent": {"last_seen_at": timezone.now() - timedelta(minutes=2)},
        "cordoned": {"cordoned": True},
        "takes nothing": {"max_sessions": 0},
    }
    Executor.objects.filter(name="two").update(**changes.get(unfit, {"driver": "kubernetes"}))
    if unfit == "avoided":
        Session.objects.filter(pk=child.pk).update(avoid_executors=["two"])
    assert one.lease() == [child.pk]
    assert avoided(one) == ""


def test_where_it_is_not_known_whose_node_it_was_the_name_counts(at: Project) -> None:
    one, two = on("n1"), on("n1", "n2")
    parent = apart(at)
    child = evicted(parent, one, "n1")
    Session.objects.filter(pk=parent.pk).update(executor="")
    assert one.lease() == []
    assert two.lease() == [child.pk]
    assert avoided(two) == "n1"


def rounds_statements(played: Agent) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert played.lease() == []
    return len(seen)


def test_many_that_avoid_a_node_cost_no_statement_each(at: Project) -> None:
    one = on("a", name="one")
    on("b", name="two")
    owner = user(superuser=True)

    def waiting(count: int) -> None:
        parents = [apart(at, owner=owner) for _ in range(count)]
        assert set(one.lease()) == {each.pk for each in parents}
        for each in parents:
            fail(each, one, "a")

    waiting(2)
    rounds_statements(one)  # which reads what such sessions ask for; that is known from then on
    few = rounds_statements(one)
    waiting(30)
    assert Session.objects.filter(avoid_node="a", status="PENDING").count() == 32
    assert rounds_statements(one) == few
    assert check_all() == []


def run(driver: SimulatedDriver, played: Agent) -> Observation:
    """The end of the one session that the agent was just leased, on simulated nodes."""
    (lease,) = played.answer["leases"]
    key = LeaseKey(lease["session_id"], lease["fencing_token"])
    order = Order(key, lease["spec"], lease["environ"], RunFiles(key, NOWHERE), lease["avoid_node"])
    driver.start(order)
    for _ in range(10):
        for seen in driver.poll(1):
            if seen.termination is not None:
                return seen
    raise AssertionError("the run does not end")


@pytest.mark.parametrize("count", [1, 2])
def test_simulated_runs_of_a_chain_move_from_node_to_node(at: Project, count: int) -> None:
    driver = SimulatedDriver(Script(), seed=1, nodes=count, speed=0)
    played = agent()
    course = {"seconds": 0, "reasons": "Evicted", "exit_codes": 1}
    session = apart(at, environ={"REPRISE_SIMULATE": json.dumps(course)})
    nodes = []
    for _ in range(4):
        played.nodes = [dict(node) for node in driver.nodes([])]
        assert played.lease() == [session.pk]
        end = run(driver, played)
        nodes.append(end.node)
        fail(session, played, end.node)
        session = tip(session)
    assert nodes == (["sim-0"] * 4 if count == 1 else ["sim-0", "sim-1"] * 2)
