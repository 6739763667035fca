"""A round, "why pending" and "would it fit" know what pods get that their sessions do not say."""

from typing import Any

import pytest

from scheduler.models import Executor
from sessions_app.models import Project, Session
from sessions_app.selectors.why_pending import why_pending
from tests.agent import Agent, Api, admin, agent
from tests.factories import submit, user

GPU = {"nvidia.com/gpu": "1"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATING = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def node(name: str, labels: Any = None, taints: Any = (), **amounts: str) -> dict[str, Any]:
    more = {"labels": labels or {}, "taints": [*taints]}
    return {"name": name, "allocatable": {"cpu": "4", **amounts}, **more}


NODES = [node("a"), node("b"), node("g", taints=[TAINT], **{"nvidia.com/gpu": "8"})]


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=NODES)


def waiting(at: Project, **fields: Any) -> Session:
    return submit(at, owner=user(superuser=True), **fields)


def why(session: Session) -> str:
    found = why_pending(session, at_once=True)
    assert found is not None
    return found.message


def warned(api: Api, **fields: Any) -> list[str]:
    response = api.post("sessions/", {"project": "acme/work", "command": ["true"], **fields})
    assert response.status_code == 201, response.content
    return list(response.json().get("warnings", ()))


@pytest.mark.parametrize(
    "fields", [{"extended_tolerations": True}, {"pod_placing": TOLERATING}], ids=["added", "own"]
)
def test_a_gpu_session_starts_where_a_bare_pod_would(
    at: Project, played: Agent, api: Api, fields: dict[str, Any]
) -> None:
    played.lease()
    (told,) = warned(api, resources=GPU)
    session = waiting(at, resources=GPU)
    assert played.lease() == []
    most = "2 of 3 nodes have too little nvidia.com/gpu"
    nearest = "the nearest, node g, has the taint nvidia.com/gpu, which it does not tolerate"
    words = f"it fits on no executor: one: no node has all that it needs: {most}; {nearest}"
    assert (told, why(session)) == (words, words)
    assert session.pk in played.lease(**fields)
    assert [each["nodes"] for each in played.answer["leases"]] == [["g"], ["g"]]
    assert warned(api, resources=GPU) == []


def test_the_word_of_an_agent_holds_until_its_nodes_come_again(at: Project, played: Agent) -> None:
    played.lease(pod_placing=TOLERATING, extended_tolerations=True)
    played.lease(nodes=None)
    known = Executor.objects.get()
    assert (known.pod_placing, known.extended_tolerations) == (TOLERATING, True)
    shown = admin().read("executors/one/")
    assert (shown["pod_placing"], shown["extended_tolerations"]) == (TOLERATING, True)
    played.lease()
    known.refresh_from_db()
    assert (known.pod_placing, known.extended_tolerations) == ({}, False)


def test_a_selector_of_the_executor_counts_and_one_of_the_session_wins(
    at: Project, played: Agent, api: Api
) -> None:
    played.nodes = [node("a", {"pool": "batch"}), node("b", {"pool": "own"})]
    selector = {"nodeSelector": {"pool": "batch"}}
    played.lease(pod_placing=selector)
    for _ in range(3):
        waiting(at, resources={"cpu": "2"}, name="plain")
    own = waiting(at, resources={"cpu": "2"}, pod_spec={"nodeSelector": {"pool": "own"}})
    assert len(played.lease(pod_placing=selector)) == 3
    nodes = {each["session_id"]: each["nodes"] for each in played.answer["leases"]}
    assert nodes.pop(str(own.pk)) == ["b"]
    assert list(nodes.values()) == [["a"], ["a"]]
    (left,) = Session.objects.filter(status="PENDING")
    assert why(left).startswith("it waits for room")


def test_another_executor_is_judged_by_its_own_defaults(at: Project, played: Agent) -> None:
    """A retry that avoids an executor goes back there if no other one could run it."""
    other = agent("other", nodes=NODES)
    other.lease()
    session = waiting(at, resources=GPU)
    Session.objects.filter(pk=session.pk).update(avoid_executors=["one"], scheduling_key=None)
    assert played.lease(extended_tolerations=True) == [session.pk]


def test_another_executor_that_could_run_it_gets_it(at: Project, played: Agent) -> None:
    other = agent("other", nodes=NODES)
    other.lease(extended_tolerations=True)
    session = waiting(at, resources=GPU)
    Session.objects.filter(pk=session.pk).update(avoid_executors=["one"], scheduling_key=None)
    assert played.lease(extended_tolerations=True) == []
    assert other.lease(extended_tolerations=True) == [session.pk]


@pytest.mark.parametrize(
    ("placing", "why"),
    [
        ([], "must be an object"),
        ({"tolerations": "all"}, "tolerations: must be a list of objects"),
        ({"containers": []}, "containers: is no field of pod defaults"),
    ],
)
def test_what_cannot_be_read_is_refused(played: Agent, placing: Any, why: str) -> None:
    limits = {"max_sessions": 1}
    answer = played.call("lease", {"limits": limits, "nodes": [], "pod_placing": placing})
    assert answer.status_code == 400
    assert why in answer.content.decode()
