"""Sessions that wait for their cluster to add a node: from the round to the time limit."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Executor, Lease, Reservation
from scheduler.services.verify import Verified, starts_verify
from sessions_app.models import Project, Session
from sessions_app.selectors.why_pending import why_pending
from tests.agent import Agent, admin, agent
from tests.factories import policy, project, submit, user
from tests.invariants import check_all
from tests.unit.retry.recorded import recorded

GPU = {"name": "gpu", "resources": {"cpu": "8"}, "labels": {"pool": "gpu"}, "max": 2}
DECLARED = {**GPU, "taints": []}


@pytest.fixture
def at() -> Project:
    return project()


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=[node("a")])


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    return {"name": name, "allocatable": {"cpu": cpu}, "labels": labels}


def waiting(at: Project, count: int, cpu: str, **fields: Any) -> list[UUID]:
    owner = user(superuser=True)
    return [submit(at, owner=owner, resources={"cpu": cpu}, **fields).pk for _ in range(count)]


def lease(played: Agent, *templates: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    played.lease(node_templates=templates or [GPU], **fields)
    leases: list[dict[str, Any]] = played.answer["leases"]
    return leases


def places(leases: list[dict[str, Any]]) -> list[tuple[list[str], dict[str, str]]]:
    return [(each["nodes"], each["node_labels"]) for each in leases]


def test_what_fits_no_node_is_leased_with_the_labels_of_a_template(
    at: Project, played: Agent
) -> None:
    (small,) = waiting(at, 1, "4", priority=2)
    (large,) = waiting(at, 1, "8", priority=1)
    assert places(lease(played)) == [(["a"], {}), ([], {"pool": "gpu"})]
    assert Lease.objects.get(session=large).template == "gpu"
    assert (Lease.objects.get(session=small).template, Executor.objects.get().node_templates) == (
        "",
        [DECLARED],
    )
    assert check_all() == []


def test_no_more_is_leased_than_templates_can_still_bring(at: Project, played: Agent) -> None:
    sessions = waiting(at, 5, "8")
    assert len(lease(played)) == 2
    assert lease(played) == []
    # The first one's node comes, and the second one still waits.
    played.nodes = [node("a"), node("new", "8", pool="gpu")]
    assert lease(played) == []
    played.report(sessions[0], "PREPARING")
    played.report(sessions[0], "RUNNING", node="new")
    assert lease(played) == []
    played.succeed(sessions[0])
    # Its cluster puts the second one where there is room now; another node can come.
    assert places(lease(played)) == [([], {"pool": "gpu"})]
    assert lease(played) == []
    played.report(sessions[1], "PREPARING")
    played.report(sessions[1], "RUNNING", node="new")
    played.succeed(sessions[1], sessions[2])
    assert places(lease(played)) == [(["new"], {}), ([], {"pool": "gpu"})]


def test_small_sessions_share_a_node_that_is_to_come(at: Project, played: Agent) -> None:
    played.nodes = []
    waiting(at, 9, "4")
    assert places(lease(played)) == [([], {"pool": "gpu"})] * 4
    assert lease(played) == []


def test_templates_are_kept_while_nodes_are_unchanged(at: Project, played: Agent) -> None:
    lease(played)
    waiting(at, 1, "8")
    assert len(lease(played, {**GPU, "max": 1}, nodes=None)) == 1
    assert Executor.objects.get().node_templates == [DECLARED]
    # An agent without templates takes them back.
    played.lease()
    assert Executor.objects.get().node_templates == []


def test_who_waits_for_a_new_node_stays_away_from_nodes_that_are_kept_free(
    at: Project, played: Agent, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "starved_after": -1}
    (busy,) = waiting(at, 1, "1", priority=3)
    lease(played)
    (starved,) = waiting(at, 1, "4", pod_spec={"nodeSelector": {"disk": "ssd"}}, priority=2)
    played.nodes = [node("a", disk="ssd")]
    waiting(at, 1, "8", priority=1)
    (large,) = lease(played)
    assert (large["nodes"], large["node_labels"]) == ([], {"pool": "gpu"})
    assert large["avoid_nodes"] == ["a"]
    played.start(busy)
    played.succeed(busy)
    assert lease(played)[0]["session_id"] == str(starved)


def test_nothing_is_kept_free_for_who_can_run_on_new_nodes_only(
    at: Project, played: Agent, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "starved_after": -1}
    waiting(at, 3, "8")
    waiting(at, 1, "4", priority=9)
    assert len(lease(played)) == 3
    (large,) = waiting(at, 1, "4", priority=5)
    assert lease(played) == []
    # The one that a node which is there can hold gets it, the other one waits for new ones.
    kept = Reservation.objects.values_list("session", "nodes")
    assert list(kept) == [(large, ["a"])]


def test_a_pod_that_waits_for_a_new_node_has_longer(at: Project, played: Agent) -> None:
    session = submit(at, resources={"cpu": "8"}, retry_policy=policy())
    lease(played)
    played.report(session.pk, "PREPARING", pod=recorded("unschedulable-cpu"))

    def check_after(seconds: float) -> Verified:
        since = timezone.now() - timedelta(seconds=seconds)
        Lease.objects.update(pod_created_at=since, verify_at=since)
        return starts_verify()

    assert check_after(599) == Verified(1, 0)
    session.refresh_from_db()
    words = "it waits for its cluster to add a node of template gpu; no node has been found"
    assert session.status_message.startswith(words)
    assert check_after(601) == Verified(1, 1)
    session.refresh_from_db()
    assert session.start_failure is not None
    assert "; so it is for 600 s now" in session.status_message


def test_a_lease_that_is_granted_again_waits_for_no_template(at: Project, played: Agent) -> None:
    (session,) = waiting(at, 1, "8")
    lease(played)
    played.give_back(session)
    other = agent("two", nodes=[node("b", "8")])
    assert places(lease(other)) == [(["b"], {})]
    assert Lease.objects.get(session=session).template == ""


def test_a_session_is_left_to_an_executor_that_can_get_a_node_for_it(
    at: Project, played: Agent
) -> None:
    (session,) = waiting(at, 1, "8")
    Session.objects.filter(pk=session).update(avoid_executors=["one"], scheduling_key=None)
    other = agent("two", nodes=[node("b")])
    other.lease(wait_s=0, limits={"max_sessions": 0}, node_templates=[GPU])
    Executor.objects.filter(name="two").update(max_sessions=1)
    played.lease(nodes=[node("a", "8")])
    assert played.answer["leases"] == []
    assert places(lease(other)) == [([], {"pool": "gpu"})]


def test_who_waits_for_templates_that_are_used_up_says_so(at: Project, played: Agent) -> None:
    other = {**GPU, "name": "tpu", "resources": {"cpu": "4"}}
    waiting(at, 2, "8")
    assert len(lease(played, {**GPU, "max": 2}, other)) == 2
    (last,) = waiting(at, 1, "8")
    assert lease(played, {**GPU, "max": 2}, other) == []
    why = why_pending(Session.objects.get(pk=last), at_once=True)
    assert why is not None
    words = "it waits for room: one: cpu, of which it needs 8 and 4 is free"
    adds = "its cluster has no more nodes to add of template gpu"
    assert (why.reason, why.message) == ("capacity", f"{words} ({adds})")
    lease(played, {**GPU, "max": 3}, nodes=[], limits={"max_sessions": 0})
    Executor.objects.update(max_sessions=9)
    why = why_pending(Session.objects.get(pk=last), at_once=True)
    assert why is not None
    assert why.reason == "position"


def test_templates_count_when_a_submission_is_compared(at: Project, played: Agent) -> None:
    door = admin()

    def warned(cpu: str) -> list[str]:
        body = {"project": at.address, "command": ["true"], "resources": {"cpu": cpu}}
        answer = door.post("sessions/", body)
        assert answer.status_code == 201, answer.content
        return list(answer.json().get("warnings", ()))

    played.lease()
    sizes = "it fits on no executor: one: cpu, of which it needs 9 and the largest node has"
    assert warned("9") == [f"{sizes} 4"]
    lease(played)
    assert warned("9") == [f"{sizes} 8"]
    assert warned("8") == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([{**GPU, "max": 0}], "0.max: must be a whole number from 1 to 1000"),
        ([GPU, {**GPU, "name": "b", "resources": {"cpu": "x"}}], "1.resources: cpu: "),
        ([{**GPU, "name": f"t{number}"} for number in range(51)], "must be a list of at most 50"),
        (None, "must be a list of at most 50"),
    ],
)
def test_a_bad_template_is_refused_and_named(
    at: Project, played: Agent, wrong: Any, why: str
) -> None:
    lease(played)
    response = played.call("lease", {"nodes": [], "node_templates": wrong})
    assert response.status_code == 400
    (found,) = response.json()["errors"]["node_templates"]
    assert why in found
    assert Executor.objects.get().node_templates == [DECLARED]


def test_people_see_the_templates(at: Project, played: Agent) -> None:
    lease(played, {**GPU, "taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    door = admin()
    (listed,) = door.read("executors/")["results"]
    assert listed["node_templates"] == [{**GPU, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}]
    assert door.read("executors/one/")["node_templates"] == listed["node_templates"]
    query = '{executor(name: "one") {nodeTemplates {name resources labels taints max}}}'
    answer = door.post("/graphql/", {"query": query}).json()
    assert answer["data"]["executor"]["nodeTemplates"] == listed["node_templates"]


def test_templates_cost_a_round_no_statement(at: Project, played: Agent) -> None:
    counts: dict[bool, list[int]] = {False: [], True: []}
    # The first round reads what later ones know, and some do what is due every few seconds.
    for templates, cpu in [([], "4"), ([GPU], "4"), ([GPU], "8")] * 2:
        waiting(at, 1, cpu)
        with CaptureQueriesContext(connection) as asked:
            (session,) = played.lease(node_templates=templates)
        counts[bool(templates)].append(len(asked))
        played.start(session)
        played.succeed(session)
    assert min(counts[False]) == min(counts[True])
