"""A priority class that only its owner may name is not borrowed through what the owner made."""

from typing import Any

import pytest

from sessions_app.models import Project, Schedule, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Agent, Api, admin, failed
from tests.pages import signed_in

TEMPLATE = {"command": ["true"], "priority_class": "urgent"}
SPAN = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T00:01:00Z", "dry_run": True}


@pytest.fixture
def api(at: Project) -> Api:
    """A cluster admin, with a class that no project may name."""
    found = admin()
    made = found.post("priority-classes/", {"name": "urgent", "value": 500})
    assert made.status_code == 201
    return found


@pytest.fixture
def lead(at: Project) -> Api:
    return Api(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))


def scheduled(api: Api, at: Project, **fields: Any) -> str:
    body = {"project": at.address, "name": "nightly", "every": 60, "template": TEMPLATE}
    made = api.post("schedules/", {**body, **fields})
    assert made.status_code == 201, made.content
    return f"schedules/{made.json()['id']}/"


@pytest.mark.parametrize(
    ("verb", "body"), [("trigger", None), ("backfill", SPAN), ("resume", None)]
)
def test_a_maintainer_does_not_make_sessions_of_it(
    api: Api, lead: Api, at: Project, verb: str, body: Any
) -> None:
    path = scheduled(api, at, paused=True)
    refused = lead.post(f"{path}{verb}/", body)
    assert refused.status_code == 403, refused.content
    assert refused.json()["detail"] == (
        "the schedule has the priority class urgent, which lea may not name here"
    )
    assert not Session.objects.exists()
    assert Schedule.objects.get().paused
    # A maintainer may still stop it, and its owner goes on.
    assert lead.post(f"{path}pause/", {}).status_code == 200
    assert api.post(f"{path}{verb}/", body).status_code in {200, 201}


def test_nor_over_the_page(api: Api, at: Project) -> None:
    scheduled(api, at)
    page = signed_in(factories.user("lea", project=at, role=Role.MAINTAINER))
    address = f"/projects/{at.address}/schedules/{Schedule.objects.get().pk}/"
    told = page.post(f"{address}act/", {"act": "trigger"}, follow=True).content.decode()
    assert "the schedule has the priority class urgent" in told
    assert not Session.objects.exists()


def test_a_class_that_the_project_may_name_is_no_matter(api: Api, lead: Api, at: Project) -> None:
    path = scheduled(api, at)
    api.call("PATCH", "priority-classes/urgent/", {"projects": [at.address]})
    assert lead.post(f"{path}trigger/", None).status_code == 201
    plain = scheduled(api, at, name="plain", template={"command": ["true"]})
    assert lead.post(f"{plain}trigger/", None).status_code == 201


def test_a_retry_by_another_does_not_take_the_class_to_another_program(
    api: Api, lead: Api, at: Project, played: Agent
) -> None:
    body = {"project": at.address, **TEMPLATE, "retry_policy": {"max_retries": 0}}
    made = api.post("sessions/", body).json()
    failed(played, Session.objects.get())
    path = f"sessions/{made['id']}/retry/"
    refused = lead.post(path, {"changes": {"command": ["env"]}})
    assert refused.status_code == 403, refused.content
    assert "the priority class urgent, which lea may not name here" in refused.json()["detail"]
    asked = {"filter": {"status": "ERROR"}, "changes": {"image": "a:1"}, "dry_run": True}
    (outcome,) = lead.post("sessions/bulk-retry/", asked).json()["results"]
    assert outcome["outcome"] == "refused"
    kept = lead.post(path, {"changes": {"resources": {"cpu": "1"}}, "dry_run": True})
    assert kept.status_code in {200, 400} or kept.status_code == 200
    assert api.post(path, {"changes": {"command": ["env"]}}).status_code == 201
    assert lead.post(f"sessions/{made['id']}/retry/", {}).status_code == 409
