"""Priority classes over REST, and the order that they give to sessions that wait."""

from typing import Any

import pytest

from sessions_app.models import Project, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Agent, Api, admin, failed
from tests.audit import audited_acts

PATH = "priority-classes/"


@pytest.fixture
def api() -> Api:
    return admin()


def make(api: Api, name: str, value: int, **fields: Any) -> Any:
    response = api.post(PATH, {"name": name, "value": value, **fields})
    assert response.status_code == 201, response.content
    return response.json()


def member(at: Project) -> Api:
    return Api(factories.token(factories.user("mia", project=at, role=Role.MEMBER)))


def created(api: Api, at: Project, **fields: Any) -> Any:
    return api.post("sessions/", factories.body(project=at.address, **fields))


def test_a_class_is_made_read_changed_and_deleted(api: Api) -> None:
    made = make(api, "high", 100, may_preempt=True, protected_for=60.0)
    assert api.read(f"{PATH}high/") == made
    assert (made["value"], made["preemptible"], made["domains"]) == (100, True, [])
    changed = api.call("PATCH", f"{PATH}high/", {"preemptible": False}).json()
    assert (changed["preemptible"], changed["may_preempt"]) == (False, True)
    replaced = api.call("PUT", f"{PATH}high/", {"value": 100}).json()
    assert (replaced["preemptible"], replaced["may_preempt"]) == (True, False)
    assert "high" in [each["name"] for each in api.read(PATH)["results"]]
    assert api.call("DELETE", f"{PATH}high/").status_code == 204
    assert api.get(f"{PATH}high/").status_code == 404
    assert "priority_class.delete" in audited_acts().values_list("action", flat=True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "value": 1001}, "value"),
        ({"name": "x", "value": 1, "protected_for": -1.0}, "protected_for"),
        ({"name": "x", "value": 1, "domains": ["nowhere"]}, "domains"),
        ({"name": "x", "value": 1, "projects": ["acme/nothing"]}, "projects"),
        ({"name": "x"}, "value"),
    ],
)
def test_bad_input_names_the_field(api: Api, body: dict[str, Any], field: str) -> None:
    response = api.post(PATH, body)
    assert response.status_code == 400
    assert field in response.json()["errors"]


def test_a_value_is_unique_and_never_changes(api: Api) -> None:
    make(api, "high", 100)
    taken = api.post(PATH, {"name": "other", "value": 100})
    assert (taken.status_code, taken.json()["errors"]) == (409, {"value": ["is taken"]})
    assert api.call("PUT", f"{PATH}other/", {"value": 100}).status_code == 409
    assert api.call("PATCH", f"{PATH}high/", {"value": 7}).status_code == 400


def test_a_session_names_a_class_that_its_project_may_name(api: Api, at: Project) -> None:
    make(api, "high", 100, projects=[at.address])
    make(api, "secret", 200)
    mia = member(at)
    session = created(mia, at, priority_class="high", priority=-3).json()
    assert (session["priority_class"], session["priority"]) == ("high", -3)
    plain = created(mia, at, priority_class="default").json()
    assert (plain["priority_class"], plain["priority"]) == ("default", 0)
    refused = created(mia, at, priority_class="secret")
    assert refused.status_code == 400
    (why,) = refused.json()["errors"]["priority_class"]
    assert "may name: " in why
    assert "high" in why
    assert created(mia, at, priority_class="unknown").status_code == 400
    assert created(api, at, priority_class="secret").status_code == 201


def test_higher_classes_go_first_then_higher_priorities(
    api: Api, at: Project, played: Agent
) -> None:
    make(api, "high", 1, projects=[at.address])
    make(api, "low", -1, projects=[at.address])
    wanted = [("low", 1_000_000), ("", 0), ("", 5), ("high", -1_000_000), ("high", 0)]
    made = [
        created(api, at, priority_class=name, priority=within).json()["id"]
        for name, within in wanted
    ]
    got = [str(each) for _ in wanted for each in played.lease(free_slots=1)]
    assert got == [made[4], made[3], made[2], made[1], made[0]]


def test_a_retry_keeps_the_class(api: Api, at: Project, played: Agent) -> None:
    make(api, "high", 7, projects=[at.address])
    ids = [
        created(api, at, priority_class="high", priority=4, retry_policy=factories.policy()).json()[
            "id"
        ]
        for _ in range(2)
    ]
    first, second = [Session.objects.get(pk=each) for each in ids]
    failed(played, first)
    retries_dispatch()
    child = Session.objects.get(parent=first)
    assert (child.rank, child.priority) == (7, 4)
    played.start(second.pk)
    played.fail(second.pk, exit_code=99)
    response = api.post(f"sessions/{second.pk}/retry/", {"changes": {"priority": -9}})
    assert response.status_code in {200, 201}, response.content
    child = Session.objects.get(parent=second)
    assert (child.rank, child.priority) == (7, -9)


@pytest.mark.parametrize("priority", [-1_000_000, 0, 1_000_000])
def test_a_lease_names_the_class(api: Api, at: Project, played: Agent, priority: int) -> None:
    make(api, "high", 7)
    make(api, "low", -1000)
    given = {
        created(api, at, priority_class=name, priority=priority).json()["id"]: name
        for name in ("high", "low", "default")
    }
    played.lease()
    assert {each["session_id"]: each["priority_class"] for each in played.answer["leases"]} == given


def test_a_class_that_waits_is_not_deleted(api: Api, at: Project) -> None:
    make(api, "high", 7)
    session = created(api, at, priority_class="high").json()
    assert api.call("DELETE", f"{PATH}high/").status_code == 409
    api.post(f"sessions/{session['id']}/cancel/")
    assert api.call("DELETE", f"{PATH}high/").status_code == 204
    assert api.read(f"sessions/{session['id']}/")["priority_class"] is None
