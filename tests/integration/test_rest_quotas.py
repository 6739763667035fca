"""Quotas over REST: what they are, what is in use, and what a waiting session says of them."""

from typing import Any

import pytest

from sessions_app.models import Project, ProjectUsage
from tests import factories
from tests.agent import Api, agent, running
from tests.audit import audited_acts
from tests.factories import quotas, submit, user


@pytest.fixture
def api() -> Api:
    return Api(factories.token(user("root", superuser=True)))


OWN, DOMAIN = "quotas/projects/acme/work/", "quotas/domains/acme/"


def test_without_any(at: Project, api: Api) -> None:
    assert api.read(OWN) == {
        "scope": at.address,
        "sessions": None,
        "pending_sessions": None,
        "resources": {},
        "usage": [],
    }


def test_stored_limits_are_read_with_their_use(at: Project, api: Api) -> None:
    body = {"sessions": 4, "resources": {"memory": "64Gi", "cpu": 2.5, "gpu": 8}}
    answer = api.call("PUT", OWN, body)
    assert answer.status_code == 200
    api.call("PUT", DOMAIN, {"pending_sessions": 9})
    node = {"name": "n1", "allocatable": {"memory": "64Gi"}}
    running(agent(nodes=[node]), submit(at, resources={"memory": "1Gi"}))
    submit(at)
    stored = api.read(OWN)
    assert stored == {
        "scope": "acme/work",
        "sessions": 4,
        "pending_sessions": None,
        "resources": {"cpu": "2500m", "gpu": "8", "memory": "64Gi"},
        "usage": [
            {"scope": "acme/work", "name": "resources.cpu", "limit": "2500m", "used": "0"},
            {"scope": "acme/work", "name": "resources.gpu", "limit": "8", "used": "0"},
            {"scope": "acme/work", "name": "resources.memory", "limit": "64Gi", "used": "1Gi"},
            {"scope": "acme/work", "name": "sessions", "limit": "4", "used": "1"},
            {"scope": "acme", "name": "pending_sessions", "limit": "9", "used": "1"},
        ],
    }
    # What is read can be sent again.
    again = {name: stored[name] for name in ("sessions", "pending_sessions", "resources")}
    assert api.call("PUT", OWN, again).json() == stored


def test_put_replaces_patch_changes_and_delete_takes_all(at: Project, api: Api) -> None:
    api.call("PUT", OWN, {"sessions": 4, "pending_sessions": 5, "resources": {"cpu": 1, "gpu": 2}})
    answer = api.call("PATCH", OWN, {"sessions": 6, "resources": {"gpu": None, "memory": "1Gi"}})
    assert answer.json()["sessions"] == 6
    assert answer.json()["pending_sessions"] == 5
    assert answer.json()["resources"] == {"cpu": "1", "memory": "1Gi"}
    answer = api.call("PATCH", OWN, {"pending_sessions": None})
    assert answer.json()["pending_sessions"] is None
    answer = api.call("PUT", OWN, {"sessions": 0})
    assert (answer.json()["sessions"], answer.json()["resources"]) == (0, {})
    assert api.call("DELETE", OWN).status_code == 204
    assert api.read(OWN)["usage"] == []
    assert not ProjectUsage.objects.exists()
    entries = audited_acts().filter(object_type="quota").order_by("-pk")
    assert entries[0].data == {"before": {"sessions": "0"}, "after": {}}
    changed = {"before": {"sessions": "4"}, "after": {"sessions": "6"}}
    assert changed in [each.data for each in entries if each.action == "quota.change"]
    made = {"before": {}, "after": {"resources.memory": str(2**30)}}
    assert made in [each.data for each in entries if each.action == "quota.create"]
    assert {(each.actor, each.object_id) for each in entries} == {("root", "acme/work")}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"sessions": -1}, "sessions"),
        ({"sessions": 1.5}, "sessions"),
        ({"sessions": True}, "sessions"),
        ({"sessions": 10**10}, "sessions"),
        ({"pending_sessions": "many"}, "pending_sessions"),
        ({"resources": {"memory": "much"}}, "resources.memory"),
        ({"resources": {"memory": "-1Gi"}}, "resources.memory"),
        ({"resources": {"memory": "9E"}, "cpu": 1}, "cpu"),
        ({"resources": {"": "1"}}, "resources."),
        ({"resources": {"x" * 129: "1"}}, f"resources.{'x' * 129}"),
        ({"resources": ["memory"]}, "resources"),
        ({"resources": {f"r{n}": "1" for n in range(65)}}, "resources"),
        ({"limits": {}}, "limits"),
    ],
)
def test_wrong_limits_name_their_field(
    at: Project, api: Api, body: dict[str, Any], field: str
) -> None:
    for method in ("PUT", "PATCH"):
        answer = api.call(method, OWN, body)
        assert answer.status_code == 400
        assert list(answer.json()["errors"]) == [field]
    assert not ProjectUsage.objects.exists()


def test_a_waiting_session_says_which_quota_holds_it(at: Project, api: Api) -> None:
    played = agent(nodes=[{"name": "n1", "allocatable": {"memory": "64Gi"}}])
    quotas(at.domain, memory="4Gi")
    first = submit(at, resources={"memory": "3Gi"})
    waiting = submit(at, resources={"memory": "2Gi"})
    assert api.read(f"sessions/{waiting.pk}/")["pending_reason"] is None
    running(played, first)
    answer = api.read(f"sessions/{waiting.pk}/")["pending_reason"]
    assert answer == "the quota resources.memory of acme is 4Gi, 3Gi are in use, and this needs 2Gi"
    assert api.read(f"sessions/{first.pk}/")["pending_reason"] is None
    played.succeed(first.pk)
    assert api.read(f"sessions/{waiting.pk}/")["pending_reason"] is None
