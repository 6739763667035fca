"""A session that waits says what holds it, on every door."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from sessions_app.models import Project, Session
from tests.agent import Agent, Api, admin, agent
from tests.factories import project, queue, submit


@pytest.fixture
def at() -> Project:
    return project()


@pytest.fixture
def api() -> Api:
    return admin()


def alive(name: str, cpu: str = "4", **more: Any) -> Agent:
    """An agent that has called in with one node, and that would take sessions now."""
    made = agent(name, nodes=[{"name": f"{name}-1", "allocatable": {"cpu": cpu}, **more}])
    made.lease(limits={"max_sessions": 0})
    type(made.executor).objects.filter(pk=made.executor.pk).update(max_sessions=9)
    return made


def why(api: Api, session: Session) -> dict[str, Any]:
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    read = api.read(f"sessions/{session.pk}/")
    reason: dict[str, Any] = read["why_pending"]
    return reason and {**reason, "message": read["pending_reason"]}


def test_a_cordoned_queue_says_so(at: Project, api: Api) -> None:
    queue(at, "closed", cordoned=True, cordon_reason="new racks")
    reason = why(api, submit(at, queue="closed"))
    assert (reason["reason"], reason["message"]) == (
        "queue_cordoned", "its queue is cordoned: new racks",
    )  # fmt: skip


def test_without_executors_nothing_runs(at: Project, api: Api) -> None:
    alive("bound").executor.projects.set([project()])
    assert why(api, submit(at))["reason"] == "no_executor"


def test_a_wait_for_cordoned_executors_names_them(at: Project, api: Api) -> None:
    def close(name: str, reason: str) -> None:
        assert api.post(f"executors/{name}/cordon/", {"reason": reason}).status_code == 200

    alive("small", "4")
    alive("large", "8")
    alive("huge", "16")
    session = submit(at, resources={"cpu": "8"})
    close("large", "new racks")
    assert why(api, session)["reason"] == "position"
    close("huge", "moved")
    answer = why(api, session)
    assert answer["reason"] == "executor_cordoned"
    cordoned = "huge: moved; large: new racks"
    assert answer["message"] == f"the executors that could run it are cordoned: {cordoned}"
    assert why(api, submit(at, resources={"cpu": "32"}))["reason"] == "no_fit"
    close("small", "old")
    assert why(api, submit(at, resources={"cpu": "1"}))["message"].endswith("; small: old")
    assert why(api, submit(at, resources={"cpu": "32"}))["reason"] == "no_executor"
    alive("four")
    close("four", "x")
    assert why(api, submit(at))["message"].endswith("; and 1 more")


def test_a_session_that_fits_nowhere_names_the_resource(at: Project, api: Api) -> None:
    alive("small", "4")
    alive("large", "8")
    reason = why(api, submit(at, resources={"cpu": "16"}))
    assert reason["reason"] == "no_fit"
    assert "small: cpu, of which it needs 16 and the largest node has 4" in reason["message"]
    assert "large: cpu, of which it needs 16 and the largest node has 8" in reason["message"]
    reason = why(api, submit(at, pod_spec={"nodeSelector": {"gpu": "a100"}}))
    assert "label gpu=a100" in reason["message"]


def test_a_wait_for_room_says_how_much_is_free(at: Project, api: Api) -> None:
    played = alive("one")
    submit(at, resources={"cpu": "3"})
    assert len(played.lease()) == 1
    reason = why(api, submit(at, resources={"cpu": "2"}))
    assert reason["reason"] == "capacity"
    assert reason["message"] == "it waits for room: one: cpu, of which it needs 2 and 1 is free"


def test_a_limit_of_the_queue_says_what_is_left(at: Project, api: Api) -> None:
    queue(at, "small", resource_limits={"cpu": "3"})
    played = alive("one", "8")
    submit(at, queue="small", resources={"cpu": "2"})
    assert len(played.lease()) == 1
    reason = why(api, submit(at, queue="small", resources={"cpu": "2"}))
    assert reason["reason"] == "queue_limit"
    assert reason["message"] == "its queue is at its limit of cpu: it needs 2, and 1 is left"


def test_avoiding_the_only_executor_with_room_is_shown(at: Project, api: Api) -> None:
    one, two = alive("one"), alive("two")
    session = submit(at, resources={"cpu": "4"})
    assert one.lease() == [session.pk]
    one.give_back(session.pk)
    urgent = submit(at, resources={"cpu": "4"}, priority=1)
    assert two.lease() == [urgent.pk]
    reason = why(api, session)
    assert reason["reason"] == "avoided"
    assert reason["message"].startswith("it avoids one, and there is no room elsewhere: two: cpu")


def test_the_place_in_the_queue_is_told(at: Project, api: Api) -> None:
    alive("one")
    first, second, third = (submit(at, resources={"cpu": cpu}) for cpu in "121")
    urgent = submit(at, priority=1)
    assert [why(api, each)["ahead"] for each in (urgent, first, second, third)] == [0, 1, 2, 3]
    reason = why(api, third)
    assert reason["reason"] == "position"
    assert reason["message"].endswith("3 sessions of its queue go before it")
    assert why(api, first)["message"].endswith("1 session of its queue goes before it")
    assert why(api, urgent)["message"].endswith("it is the first in its queue")


def test_only_what_waits_is_explained(at: Project, api: Api) -> None:
    played = alive("one")
    session = submit(at)
    played.lease()
    assert why(api, session) is None
    new = api.post("sessions/", {"project": at.address, "command": ["true"]}).json()
    assert new["why_pending"] is None
    assert api.read(f"sessions/{new['id']}/") == new


def test_the_page_says_it(at: Project, client: Any) -> None:
    from tests.factories import user

    client.force_login(user(superuser=True))
    session = submit(at)
    assert "no executor" not in client.get(f"/sessions/{session.pk}/").content.decode()
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    page = client.get(f"/sessions/{session.pk}/").content.decode()
    sentence = "its project has no executor that is alive and not cordoned."
    assert f">Waiting for an executor</span>: {sentence}" in page
    page = client.get(f"/admin/sessions_app/session/{session.pk}/change/").content.decode()
    assert "Why it waits: its project has no executor" in page
