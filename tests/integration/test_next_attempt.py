"""Tests of what the next attempt gets: other resources under a specification of its own, another
node."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.models import (
    Project,
    RetryDecision,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api, agent
from tests.audit import audited_acts
from tests.factories import settle, submit, tip, user
from tests.invariants import check_all

GROWS: dict[str, Any] = {
    "action": "Retry",
    "onConditions": ["OOMKilled"],
    "antiAffinity": {"mode": "node"},
    "resources": {"memory": {"factor": 2, "max": "3Gi"}},
}
WANTED = {"cpu": "1", "memory": "1Gi"}


@pytest.fixture
def growing(at: Project) -> Session:
    """A session whose memory doubles after each OOM, up to 3Gi."""
    factories.named_policy("grow", project=at, rules=[GROWS])
    owner = user(superuser=True)
    return submit(at, owner=owner, resources=WANTED, retry_policies=["grow"], environ={"A": "1"})


def oom(session: Session, **facts: Any) -> Session:
    return settle(session, exit_code=137, conditions=("OOMKilled",), **facts)


def due_now() -> None:
    RetryDecision.objects.filter(state="scheduled").update(due_at="2020-01-01T00:00:00Z")


def next_attempt(session: Session) -> Session:
    due_now()
    assert retries_dispatch().dispatched == 1
    return tip(session)


def test_memory_grows_from_attempt_to_attempt(growing: Session) -> None:
    had = []
    for _ in range(4):
        attempt = tip(growing)
        had.append(attempt.spec.resources["memory"])
        oom(attempt, node="n1")
        next_attempt(growing)
    assert had == ["1Gi", "2Gi", "3Gi", "3Gi"]
    # What did not change is shared again.
    assert SessionSpec.objects.count() == 3
    last = tip(growing)
    assert last.spec.environ == {"A": "1"}
    assert last.spec.request_digest == growing.spec.request_digest
    assert last.avoid_node == "n1"


def test_granted_resources_are_shown(growing: Session) -> None:
    oom(growing)
    child = next_attempt(growing)
    grown = {"cpu": "1", "memory": "2Gi"}
    assert RetryDecision.objects.get(session=growing).resources == grown
    event = SessionEvent.objects.get(session_id=growing.pk, type="session.retry_dispatched")
    assert event.data["resources"] == grown
    entry = audited_acts().get(action="retry.dispatch")
    assert entry.data["resources"] == grown
    assert "resources_before" not in entry.data
    settle(child)
    assert tip(growing).spec_id == child.spec_id


def sized(name: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "allocatable": {"cpu": "8", "memory": memory}, **more}


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, "1536Mi"),
        ({"pod_spec": {"nodeSelector": {"size": "large"}}}, "3Gi"),
        ({"pod_spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}, "2560Mi"),
        ({"resources": WANTED | {"cpu": "16"}}, "3Gi"),
        # Two of its pods share the largest node.
        ({"cluster_size": 3}, "1280Mi"),
    ],
)
def test_memory_grows_no_further_than_the_largest_node_for_it(
    at: Project, asked: dict[str, Any], most: str
) -> None:
    """Neither what it needs besides, nor what others could have, is forgotten."""
    rules = [{**GROWS, "retryLimit": 9}]
    factories.named_policy("grow", project=at, rules=rules)
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    nodes = [sized("a", "1536Mi"), sized("b", "2560Mi", taints=[taint])]
    if "cluster_size" in asked:
        nodes = [sized("a", "1280Mi"), sized("b", "2560Mi")]
    agent("one", nodes=nodes).lease()
    large = agent("two", nodes=[sized("c", "4Gi", labels={"size": "large"}, taints=[taint])])
    large.executor.projects.set([factories.project("other")])
    if "nodeSelector" in asked.get("pod_spec", {}):
        large.executor.projects.set([at])
        large.nodes[0].pop("taints")
    large.lease()
    owner = user(superuser=True)
    wanted: dict[str, Any] = {"resources": WANTED, "retry_policies": ["grow"], **asked}
    first = submit(at, owner=owner, **wanted)
    for _ in range(3):
        oom(tip(first), node="n1")
        next_attempt(first)
    assert tip(first).spec.resources["memory"] == most
    told = Api(factories.token(owner)).read(f"sessions/{tip(first).parent_id}/retry-decision/")
    stays = f"stays at {most}: the largest node that could run it allows no more"
    assert (stays in str(told)) == (most != "3Gi")


def test_a_batch_of_them_takes_one_statement_more(at: Project) -> None:
    factories.named_policy("grow", project=at, rules=[GROWS])
    owner = user(superuser=True)

    def statements(count: int) -> int:
        sessions = [
            submit(at, owner=owner, resources=WANTED, retry_policies=["grow"]) for _ in range(count)
        ]
        killed = End(Termination(exit_code=137, conditions=("OOMKilled",)))
        sessions_settle({session.pk: killed for session in sessions})
        due_now()
        with CaptureQueriesContext(connection) as queries:
            assert retries_dispatch().dispatched == count
        return len(queries)

    statements(1)
    few, many = statements(2), statements(50)
    assert few + 1 == many <= 16  # many events are copied, beside all other rows


def test_a_retry_by_hand_with_other_resources(at: Project) -> None:
    session = settle(submit(at, resources=WANTED))
    child = factories.retry(session, by="bob", resources={"memory": "4Gi"})
    assert child.spec.resources == {"cpu": "1", "memory": "4Gi"}
    assert Session.objects.get(pk=session.pk).spec.resources == WANTED
    entry = audited_acts().get(action="retry.dispatch")
    assert entry.data["resources_before"] == WANTED
    assert entry.data["resources"] == child.spec.resources
    # The next one shares them.
    settle(child)
    session_retry(child.pk, session.pk, by="bob")
    assert tip(session).spec_id == child.spec_id
    assert check_all() == []


def test_the_same_resources_make_no_new_specification(at: Project) -> None:
    session = settle(submit(at, resources=WANTED))
    session_retry(session.pk, session.pk, by="bob", resources={"cpu": "1"})
    assert tip(session).spec_id == session.spec_id
    assert check_all() == []


def test_a_waiting_retry_that_grows_grows_by_hand_too(growing: Session) -> None:
    oom(growing)
    session_retry(growing.pk, growing.pk, by="bob", resources={"cpu": "2"})
    assert tip(growing).spec.resources == {"cpu": "2", "memory": "2Gi"}
    assert check_all() == []


def test_a_cancelled_one_does_not(growing: Session) -> None:
    oom(growing)
    chain_cancel(growing.pk, by="ann")
    session_retry(growing.pk, growing.pk, by="bob")
    assert tip(growing).spec_id == growing.spec_id
    assert RetryDecision.objects.get(session=growing).resources is None
    assert check_all() == []


def test_the_executor_is_given_them(at: Project) -> None:
    session = settle(submit(at, resources=WANTED))
    session_retry(session.pk, session.pk, by="bob", resources={"memory": "4Gi"})
    played = agent(nodes=[{"name": "n1", "allocatable": {"cpu": "8", "memory": "64Gi"}}])
    played.lease()
    (lease,) = played.answer["leases"]
    assert lease["spec"]["resources"] == {"cpu": "1", "memory": "4Gi"}


def test_over_rest(at: Project) -> None:
    owner = user("ann", project=at)
    session = settle(submit(at, owner=owner, resources=WANTED))
    api = Api(factories.token(owner))
    path = f"sessions/{session.pk}/retry/"
    for wrong in ({"memory": "much"}, {"limits": {"cpu": -1}}, "4Gi", {"requests": {}, "cpu": "1"}):
        response = api.post(path, {"resources": wrong})
        assert (response.status_code, list(response.json()["errors"])) == (400, ["resources"])
    assert list(api.post(path, {"memory": "4Gi"}).json()["errors"]) == ["memory"]
    assert Session.objects.count() == 1
    response = api.post(path, {"resources": {"limits": {"memory": "4Gi"}}})
    assert response.status_code == 201
    assert response.json()["resources"] == {
        "requests": WANTED, "limits": {"cpu": "1", "memory": "4Gi"}
    }  # fmt: skip
