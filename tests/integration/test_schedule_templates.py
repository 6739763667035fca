"""What a schedule would submit is checked when it is saved, at every door."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from scheduler.models import Executor
from sessions_app.models import PriorityClass, Project, RetryDefaults, Schedule, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Api, agent
from tests.graphs import Graph
from tests.integration.test_would_it_fit import WHY, node, refuse

LARGE = {"command": ["backup"], "resources": {"cpu": "16"}}
SMALL = {"command": ["backup"], "resources": {"cpu": "1"}}
WRONG = [
    ({"retry_policies": ["nobody"]}, "template.retry_policies"),
    ({"priority_class": "nobody"}, "template.priority_class"),
    ({"retry_policy": {"max_retries": 9}}, "template.retry_policy.max_retries"),
    ({"resources": {"cpu": "16"}}, "template.resources"),
]


@pytest.fixture(autouse=True)
def one() -> None:
    """An executor with a node of 4 CPUs."""
    agent("one", nodes=[node("a")]).lease()


def body(name: str = "nightly", **fields: Any) -> dict[str, Any]:
    return {"project": "acme/work", "name": name, "every": 3600, "template": SMALL, **fields}


@pytest.mark.parametrize(("template", "field"), WRONG)
def test_what_could_never_be_submitted_is_not_saved(
    at: Project, api: Api, template: dict[str, Any], field: str
) -> None:
    refuse()
    RetryDefaults.objects.create(project=at, bounds={"max_retries": 3})
    wrong = {**SMALL, **template}
    answer = api.post("schedules/", body(template=wrong))
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert not Schedule.objects.exists()
    made = api.post("schedules/", body()).json()
    for method, sent in (("PATCH", {"template": wrong}), ("PUT", {"every": 60, "template": wrong})):
        answer = api.call(method, f"schedules/{made['id']}/", sent)
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert Schedule.objects.get().template == SMALL
    assert not Session.objects.exists()


def test_every_door_tells_what_fits_nowhere(
    at: Project, api: Api, graph: Graph, client: Client, owner: User
) -> None:
    made = api.post("schedules/", body(template=LARGE))
    assert (made.status_code, made.json()["warnings"]) == (201, [WHY])
    address = f"schedules/{made.json()['id']}/"
    assert "warnings" not in api.call("PATCH", address, {"template": SMALL}).json()
    assert api.call("PUT", address, {"every": 60, "template": LARGE}).json()["warnings"] == [WHY]
    assert api.post(f"{address}trigger/").json()["warnings"] == [WHY]
    change = """mutation($input: CreateScheduleInput!) { createSchedule(input: $input) {
        warnings errors { field } schedule { name } } }"""
    told = graph.ask(change, input=body("other", template=LARGE))["createSchedule"]
    assert (told["warnings"], told["errors"]) == ([WHY], [])
    client.force_login(owner)
    fields = {"name": "third", "every": "60", "time_zone": "UTC", "overlap": "allow"}
    sent = {**fields, "template": "command: [backup]\nresources: {cpu: 16}"}
    page = client.post("/projects/acme/work/schedules/new/", sent, follow=True).content.decode()
    assert f"Its sessions: {WHY}." in page
    refuse()
    sent["name"] = "fourth"
    refused = client.post("/projects/acme/work/schedules/new/", sent)
    assert refused.status_code == 400
    assert f"resources: {WHY}" in refused.content.decode()


def test_a_project_without_executors_and_one_at_its_quota_may_save(at: Project, api: Api) -> None:
    elsewhere = factories.project("other")
    Executor.objects.get().projects.set([elsewhere])
    (told,) = api.post("schedules/", body()).json()["warnings"]
    assert told.startswith("no executor serves its project")
    factories.quotas(at, pending_sessions=0)
    assert api.post("schedules/", body("second")).status_code == 201


def test_a_template_that_is_no_longer_good_can_be_paused_and_moved(at: Project, api: Api) -> None:
    factories.named_policy("gone", project=at, rules=[])
    made = api.post("schedules/", body(template={**SMALL, "retry_policies": ["gone"]})).json()
    address = f"schedules/{made['id']}/"
    Schedule.objects.update(template={**SMALL, "retry_policies": ["nobody"]})
    assert api.call("PATCH", address, {"every": 60}).status_code == 200
    other = Api(factories.token(factories.user("mara", project=at, role=Role.MAINTAINER)))
    assert other.call("PATCH", address, {"paused": True}).status_code == 200
    resumed = other.call("PATCH", address, {"paused": False})
    assert resumed.status_code == 200, "she owned it already"
    again = Api(factories.token(factories.user("mina", project=at, role=Role.MAINTAINER)))
    assert list(again.call("PATCH", address, {"every": 90}).json()["errors"]) == [
        "template.retry_policies"
    ]


def test_who_saves_it_must_be_allowed_what_it_names(at: Project, api: Api) -> None:
    PriorityClass.objects.create(name="admins", value=9)
    answer = api.post("schedules/", body(template={**SMALL, "priority_class": "admins"}))
    assert list(answer.json()["errors"]) == ["template.priority_class"]
    root = Api(factories.token(factories.user(superuser=True)))
    assert (
        root.post("schedules/", body(template={**SMALL, "priority_class": "admins"})).status_code
        == 201
    )
