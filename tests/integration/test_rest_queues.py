"""Queues over REST: made, changed, closed and deleted."""

from datetime import datetime
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from scheduler.models import QueueUsage
from sessions_app.core.errors import Conflict
from sessions_app.models import Project, Queue, Session
from sessions_app.models.tenants import Role
from sessions_app.services.resources.queues import queue_delete, queue_save
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.racing import race
from tests.waiting import PATIENCE_SECONDS

PATH = "queues/"
NIGHT = f"{PATH}acme/work/night/"


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))


def make(api: Api, **fields: Any) -> Any:
    response = api.post(PATH, {"project": "acme/work", "name": "night", **fields})
    assert response.status_code == 201, response.content
    return response.json()


def refused(response: Any, field: str, status: int = 400) -> list[str]:
    assert response.status_code == status, response.content
    assert list(response.json()["errors"]) == [field]
    texts: list[str] = response.json()["errors"][field]
    return texts


def test_a_queue_is_made_and_read(api: Api, at: Project) -> None:
    factories.named_policy("one")
    factories.named_policy("two", project=at)
    response = api.post(
        PATH,
        {
            "project": "acme/work",
            "name": "night",
            "priority_factor": 2,
            "resource_limits": {"cpu": "10", "sessions": 5},
            "retry_policies": ["two", "one", "two"],
        },
    )
    assert response.status_code == 201
    made = response.json()
    assert api.read(response["Location"]) == made == api.read(NIGHT)
    assert made.pop("created_at")
    assert made == {
        "project": "acme/work",
        "name": "night",
        "is_default": False,
        "priority_factor": 2.0,
        "resource_limits": {"cpu": "10", "sessions": "5"},
        "time_limits": {},
        "breaker": None,
        "retry_budget": None,
        "retry_policies": ["two", "one"],
        "cordoned": False,
        "cordon_reason": "",
        "usage": None,
    }
    assert api.read(f"{PATH}?project=acme/work")["results"][1]["name"] == "night"


def test_the_usage_of_a_queue_is_shown(api: Api, at: Project) -> None:
    made = factories.queue(at, "busy", priority_factor=4)
    now = timezone.now()
    QueueUsage.objects.create(
        queue=made, used={"cpu": "20"}, cost=0.25, current_priority=0.5, computed_at=now
    )
    usage = api.read(f"{PATH}acme/work/busy/")["usage"]
    assert datetime.fromisoformat(usage.pop("computed_at")) == now
    assert usage == {
        "used": {"cpu": "20"},
        "share": 0.25,
        "current_priority": 0.5,
        "effective_priority": 2.0,
    }
    assert [each["usage"] is None for each in api.read(PATH)["results"]] == [True, False]


def test_limits_are_changed_and_taken_away(api: Api) -> None:
    make(api)
    limits = {"cpu": "5", "nvidia.com/gpu": "1"}
    assert api.call("PATCH", NIGHT, {"resource_limits": limits}).json()["resource_limits"] == limits
    kept = api.call("PATCH", NIGHT, {"priority_factor": 4}).json()
    assert kept["resource_limits"] == limits
    assert api.call("PUT", NIGHT, {}).json()["resource_limits"] == {}


def test_a_name_is_given_once(api: Api) -> None:
    make(api)
    response = api.post(PATH, {"project": "acme/work", "name": "night"})
    assert refused(response, "name", 409) == ["is taken"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Night"),
        ("name", "a" * 64),
        ("name", None),
        ("project", 3),
        ("project", "acme/ghost"),
        ("priority_factor", 0),
        ("priority_factor", -1),
        ("priority_factor", "1"),
        ("priority_factor", True),
        ("priority_factor", 1e300),
        ("is_default", "yes"),
        ("resource_limits", {"cpu": "many"}),
        ("resource_limits", {"cpu": -1}),
        ("resource_limits", {"cpu": None}),
        ("resource_limits", ["cpu"]),
        ("resource_limits", {f"r{n}": 1 for n in range(33)}),
        ("retry_policies", ["missing"]),
        ("retry_policies", "missing"),
        ("retry_policies", ["a"] * 17),
        ("cordoned", True),
        ("weight", 1),
    ],
)
def test_each_field_is_checked(api: Api, field: str, value: Any) -> None:
    response = api.post(PATH, {"project": "acme/work", "name": "night", field: value})
    assert response.status_code == 400
    assert {name.partition(".")[0] for name in response.json()["errors"]} == {field}
    assert Queue.objects.count() == 1


def test_put_makes_and_replaces_and_patch_changes(api: Api) -> None:
    factories.named_policy("one")
    made = api.call("PUT", NIGHT, {"priority_factor": 3, "retry_policies": ["one"]})
    assert (made.status_code, made.json()["priority_factor"]) == (201, 3.0)
    patched = api.call("PATCH", NIGHT, {"priority_factor": 4}).json()
    assert (patched["priority_factor"], patched["retry_policies"]) == (4.0, ["one"])
    api.post(f"{NIGHT}cordon/", {"reason": "upgrade"})
    replaced = api.call("PUT", NIGHT, {"project": "acme/work", "name": "night"})
    assert replaced.status_code == 200
    assert replaced.json()["priority_factor"] == 1.0
    assert replaced.json()["retry_policies"] == []
    assert replaced.json()["cordon_reason"] == "upgrade"
    assert api.read(NIGHT) == replaced.json()
    for field, value in (("project", "acme/other"), ("name", "day")):
        refused(api.call("PUT", NIGHT, {field: value}), field)
    refused(api.call("PUT", f"{PATH}acme/work/Night/", {}), "name")
    refused(api.call("PATCH", NIGHT, {"name": "day"}), "name")


def test_there_is_always_one_default_queue(api: Api) -> None:
    make(api, is_default=True)
    assert [each["is_default"] for each in api.read(PATH)["results"]] == [False, True]
    response = api.call("PATCH", NIGHT, {"is_default": False})
    assert "another" in refused(response, "is_default")[0]
    assert api.call("DELETE", NIGHT).status_code == 409
    assert api.call("PUT", NIGHT, {}).json()["is_default"] is True
    assert api.call("DELETE", f"{PATH}acme/work/default/").status_code == 204


def test_cordon_and_uncordon(api: Api) -> None:
    make(api)
    for body in ({}, {"reason": ""}, {"reason": "x" * 257}, {"reason": 3}):
        refused(api.post(f"{NIGHT}cordon/", body), "reason")
    refused(api.post(f"{NIGHT}cordon/", {"reason": "  "}), "cordon_reason")
    for _ in range(2):
        closed = api.post(f"{NIGHT}cordon/", {"reason": "upgrade"}).json()
        assert (closed["cordoned"], closed["cordon_reason"]) == (True, "upgrade")
    assert len(api.read(f"{PATH}?cordoned=true")["results"]) == 1
    refused(api.post(f"{NIGHT}uncordon/", {"reason": "x"}), "reason")
    for _ in range(2):
        opened = api.post(f"{NIGHT}uncordon/").json()
        assert (opened["cordoned"], opened["cordon_reason"]) == (False, "")
    assert len(api.read(f"{PATH}?cordoned=true")["results"]) == 0


def test_a_queue_with_sessions_is_not_deleted(api: Api, at: Project) -> None:
    make(api)
    session = factories.submit(at, queue="night")
    for _ in range(2):
        response = api.call("DELETE", NIGHT)
        assert response.status_code == 409
        assert "sessions" in response.json()["detail"]
        factories.settle(session)
    make(api, name="day")
    assert api.call("DELETE", f"{PATH}acme/work/day/").status_code == 204
    assert api.get(f"{PATH}acme/work/day/").status_code == 404
    assert api.call("DELETE", f"{PATH}acme/work/day/").status_code == 404


def test_every_change_is_audited(api: Api) -> None:
    factories.named_policy("one")
    make(api)
    api.call("PATCH", NIGHT, {"retry_policies": ["one"]})
    api.call("DELETE", NIGHT)
    entries = audited_acts().filter(object_type="queue").order_by("id")
    recorded = [(each.actor, each.action, each.object_id, each.project) for each in entries]
    verbs = ("create", "change", "delete")
    assert recorded == [("mia", f"queue.{verb}", "acme/work/night", "acme/work") for verb in verbs]
    change = entries[1].data
    assert change == {"before": {"retry_policies": []}, "after": {"retry_policies": ["one"]}}


def test_lists_show_what_one_may_see_in_as_many_queries_for_many_as_for_one(
    api: Api, at: Project, django_assert_num_queries: Any
) -> None:
    far = factories.project("far", domain="globex")
    api.read(PATH)
    with django_assert_num_queries(2):
        assert len(api.read(PATH)["results"]) == 1
    for _ in range(20):
        factories.queue(at)
        factories.queue(far)
    with django_assert_num_queries(2):
        assert len(api.read(PATH)["results"]) == 21
    refused(api.get(f"{PATH}?project=globex/far"), "project")
    page = api.read(f"{PATH}?page_size=20")
    assert len(api.read(page["next"])["results"]) == 1


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_deleting_against_submitting(self) -> None:
        at = factories.project()
        owner = factories.user(project=at)
        for number in range(12):
            queue = factories.queue(at, f"queue-{number}")
            queue = Queue.objects.select_related("project__domain").get(pk=queue.pk)
            submitted, deleted = race(
                partial(factories.submit, at, owner=owner, queue=queue.name),
                partial(queue_delete, queue, by="ann"),
            )
            exists = Queue.objects.filter(pk=queue.pk).exists()
            assert exists is isinstance(submitted, Session)
            assert exists is isinstance(deleted, Conflict)

    def test_a_submission_on_its_way_keeps_the_queue(self) -> None:
        at = factories.project("work", domain="acme")
        factories.queue(at, "night")
        queue = Queue.objects.select_related("project__domain").get(name="night")
        owner, submitted = factories.user(project=at), Barrier(2)

        def submit_slowly() -> None:
            with transaction.atomic():
                factories.submit(at, owner=owner, queue="night")
                submitted.wait(PATIENCE_SECONDS)

        def delete() -> None:
            submitted.wait(PATIENCE_SECONDS)
            queue_delete(queue, by="ann")

        _, deleted = race(submit_slowly, delete)
        assert isinstance(deleted, Conflict)
        assert Session.objects.get().queue == queue

    def test_two_defaults_at_the_same_time(self) -> None:
        at = factories.project()
        for number in range(6):
            queues = [
                Queue(project=at, name=f"queue-{number}-{which}", is_default=True)
                for which in range(2)
            ]
            outcomes = race(*[partial(queue_save, queue, by="a") for queue in queues])
            assert all(each is None or isinstance(each, Conflict) for each in outcomes)
            assert Queue.objects.filter(project=at, is_default=True).count() == 1

    def test_one_name_made_twice(self) -> None:
        at = factories.project()
        for number in range(6):
            twins = [Queue(project=at, name=f"queue-{number}") for _ in range(2)]
            outcomes = race(*[partial(queue_save, queue, by="a") for queue in twins])
            assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "NoneType"]
