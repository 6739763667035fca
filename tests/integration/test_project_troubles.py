"""An executor that may start nothing of one project: all others have nothing to do with it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from scheduler.models import Executor
from scheduler.services.polling import lease_once
from scheduler.wire import LeaseCall, Limits
from sessions_app.models import Project, Session
from tests.agent import Agent, admin, agent
from tests.factories import project, queue, submit

GONE = 'namespaces "reprise-acme--work" not found (404)'


@pytest.fixture
def at() -> Project:
    return project()


def troubled(*projects: Project, why: str = GONE) -> dict[str, Any]:
    return {"project_troubles": {each.address: why for each in projects}}


def alive(name: str = "east", cpu: str = "4") -> Agent:
    return agent(name, nodes=[{"name": f"{name}-1", "allocatable": {"cpu": cpu}}])


def why_pending(session: Session) -> tuple[str, str]:
    """Return why it waits, as a reason and as a sentence."""
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    read = admin().read(f"sessions/{session.pk}/")
    return read["why_pending"]["reason"], read["pending_reason"]


def troubles_shown(name: str = "east") -> list[dict[str, str]]:
    found: list[dict[str, str]] = admin().read(f"executors/{name}/")["project_troubles"]
    return found


def test_the_sessions_of_other_projects_are_leased(at: Project) -> None:
    east = alive()
    queue(at, "second")
    kept = [submit(at), submit(at, queue="second")]
    free = submit(project())
    assert east.lease(**troubled(at)) == [free.pk]
    assert east.answer["forget_troubles"] == []
    assert set(east.lease()) == {each.pk for each in kept}


def test_only_the_projects_own_sessions_say_so(at: Project) -> None:
    east = alive()
    mine, other = submit(at), submit(project())
    api = admin()
    unrelated = alive("unrelated")
    unrelated.lease(limits={"max_sessions": 0})
    Executor.objects.filter(name="unrelated").update(max_sessions=4)
    assert api.post("executors/unrelated/cordon/", {"reason": "new racks"}).status_code == 200
    east.lease(**troubled(at), limits={"max_sessions": 0})
    Executor.objects.filter(name="east").update(max_sessions=4)
    assert why_pending(mine) == (
        "project_trouble",
        f"no session of its project can be started now: east: {GONE}",
    )
    assert why_pending(other)[0] == "position"
    assert troubles_shown() == [{"project": at.address, "trouble": GONE}]
    # Another one that could run it is what it waits for.
    assert api.post("executors/unrelated/uncordon/").status_code == 200
    assert why_pending(mine)[0] == "position"


def test_the_trouble_of_all_is_told_without_its_words(at: Project) -> None:
    """They are about the operators' cluster."""
    session = submit(at)
    alive().lease(trouble="401 from 10.1.2.3", limits={"max_sessions": 0})
    assert why_pending(session) == (
        "executor_trouble",
        "the executors that could run it are in trouble: east",
    )


def test_it_is_forgotten_with_the_last_session_that_waits(at: Project) -> None:
    east = alive()
    session = submit(at)
    east.lease(**troubled(at))
    assert len(troubles_shown()) == 1
    assert admin().post(f"sessions/{session.pk}/cancel/").status_code < 300
    east.lease(**troubled(at))
    assert east.answer["forget_troubles"] == [at.address]
    assert troubles_shown() == []


def test_a_lease_that_is_about_to_come_back_keeps_it(at: Project) -> None:
    """The executor tells of the trouble before the server has heard of the return."""
    east = alive()
    session = submit(at)
    east.lease()
    east.report(session.pk, "PREPARING")
    east.lease(**troubled(at))
    assert east.answer["forget_troubles"] == []
    returned = {
        "session_id": str(session.pk),
        "fencing_token": east.tokens.pop(session.pk),
        "reason": GONE,
        "own_trouble": True,
    }
    east.ask("return", {"returns": [returned]})
    assert east.lease(**troubled(at)) == []
    assert why_pending(session)[0] == "project_trouble"
    session.refresh_from_db()
    assert (session.status, session.lease_returns) == ("PENDING", 0)
    assert east.lease() == [session.pk]


def test_running_sessions_keep_nothing(at: Project) -> None:
    east = alive()
    session = submit(at)
    east.lease()
    east.start(session.pk)
    east.lease(**troubled(at))
    assert east.answer["forget_troubles"] == [at.address]


def test_avoidance_does_not_wait_for_an_executor_in_trouble(at: Project) -> None:
    """Both were in trouble; the first is well again."""
    east, west = alive(), alive("west")
    session = submit(at)
    west.lease(limits={"max_sessions": 0})
    Executor.objects.filter(name="west").update(max_sessions=4)
    assert east.lease() == [session.pk]
    east.give_back(session.pk)
    assert east.lease() == []
    west.lease(**troubled(at))
    assert east.lease() == [session.pk]


def test_projects_that_are_not_there_are_forgotten() -> None:
    east = alive()
    east.lease(project_troubles={"no/such": "x", "nonsense": "y", "a/b/c": "z"})
    assert east.answer["forget_troubles"] == ["a/b/c", "no/such", "nonsense"]
    too_many = {f"d/{number}": "x" for number in range(1001)}
    assert east.call("lease", {"project_troubles": too_many}).status_code == 400


def test_it_costs_a_round_nothing(at: Project) -> None:
    """Only a call that tells of some asks who is concerned, once for all of them."""
    others = [project() for _ in range(5)]
    for each in (at, *others):
        submit(each)
    alive().lease(limits={"max_sessions": 0})
    plain = LeaseCall(incarnation=1, limits=Limits(max_sessions=0))

    def cost(call: LeaseCall) -> int:
        with CaptureQueriesContext(connection) as sent:
            lease_once("east", call)
        return len(sent)

    usual = cost(plain)
    # Where all are in trouble, neither lines nor what the executor holds are read.
    for some, spared in (([at], 0), ([at, *others], 2)):
        body = plain.model_copy(update=troubled(*some))
        assert cost(body) == usual + 1 - spared
