"""`POST /sessions/bulk/`: an outcome each, in order, in the same few statements."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project, RetryDefaults, Session, SessionSpec
from sessions_app.models.tenants import Role
from tests import factories, invariants
from tests.agent import Api
from tests.factories import body


def submit(api: Api, *items: dict[str, Any]) -> list[dict[str, Any]]:
    response = api.post("sessions/bulk/", {"sessions": list(items)})
    assert response.status_code == 200, response.content
    results: list[dict[str, Any]] = response.json()["results"]
    assert len(results) == len(items)
    return results


def test_many_are_created_in_order_as_one_would_be(api: Api) -> None:
    asked = [
        body(
            name=f"n-{number}", environ={"A": '"\\ {,}'}, resources={"cpu": "1"}, labels={"x": "é"},
            pod_spec={"a": [1]} if number else None, retry_policy=factories.policy(),
        )
        for number in range(3)
    ]  # fmt: skip
    results = submit(api, *asked)
    assert {result["outcome"] for result in results} == {"created"}
    alone = api.post("sessions/", asked[2]).json()
    many = [api.read(f"sessions/{result['session_id']}/") for result in results]
    assert [each["name"] for each in many] == ["n-0", "n-1", "n-2"]
    own = {
        "id",
        "creation_id",
        "created_at",
        "root_session_id",
        "retry_chain",
        "chain_url",
        "warnings",
    }
    assert {k: v for k, v in many[2].items() if k not in own} == {
        k: v for k, v in alone.items() if k not in own
    }
    assert many[0]["pod_spec"] is None
    assert invariants.check_all() == []


def test_a_refused_one_does_not_stop_the_others(api: Api) -> None:
    factories.project("secret", domain="acme")
    results = submit(
        api,
        body(name="good"),
        body(command="true", nonsense=1),
        body(project="acme/secret"),
        body(queue="none"),
        body(name="good too"),
    )
    listed = [result["outcome"] for result in results]
    assert listed == ["created", "refused", "refused", "refused", "created"]
    faulty = [result["problem"] and sorted(result["problem"]["errors"]) for result in results]
    assert faulty == [None, ["command", "nonsense"], ["project"], ["queue"], None]
    assert {result["problem"]["status"] for result in results[1:4]} == {400}
    assert sorted(Session.objects.values_list("name", flat=True)) == ["good", "good too"]
    assert SessionSpec.objects.count() == 2


def test_creation_ids_hold_within_a_call_and_over_calls(api: Api) -> None:
    known = api.post("sessions/", body(creation_id="a")).json()["id"]
    first, again, other, new, twin, conflict = submit(
        api,
        body(creation_id="a"),
        body(creation_id="a", priority=0),
        body(creation_id="a", priority=1),
        body(creation_id="b"),
        body(creation_id="b"),
        body(creation_id="b", name="else"),
    )
    assert [first["session_id"], again["session_id"]] == [known, known]
    assert [first["outcome"], again["outcome"]] == ["exists", "exists"]
    assert (other["outcome"], other["problem"]["status"]) == ("refused", 409)
    assert (new["outcome"], twin["outcome"]) == ("created", "exists")
    assert new["session_id"] == twin["session_id"]
    assert conflict["problem"]["session_id"] == new["session_id"]
    assert Session.objects.count() == SessionSpec.objects.count() == 2


def test_a_policy_over_a_bound_is_refused_alone(api: Api, at: Project) -> None:
    RetryDefaults.objects.create(project=at, bounds={"max_retries": 2})
    good, bad = submit(
        api, body(retry_policy={"max_retries": 2}), body(retry_policy={"max_retries": 3})
    )
    assert good["outcome"] == "created"
    assert list(bad["problem"]["errors"]) == ["retry_policy.max_retries"]


@pytest.mark.parametrize("role", [None, Role.VIEWER])
def test_viewers_create_nothing(at: Project, role: Role | None) -> None:
    user = factories.user("eve", project=at, role=role) if role else factories.user("eve")
    (result,) = submit(Api(factories.token(user)), body())
    assert result["problem"]["status"] == (403 if role else 400)
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "sessions"),
        ({"sessions": []}, "sessions"),
        ({"sessions": [body()] * 1001}, "sessions"),
        ({"sessions": body()}, "sessions"),
        ({"sessions": [body(), 5]}, "sessions[1]"),
        ({"sessions": [body()], "dry_run": True}, "dry_run"),
        ({"sessions": [body(name="\x00")]}, "sessions[0].name"),
    ],
)
def test_a_wrong_body_creates_nothing(api: Api, sent: Any, field: str) -> None:
    response = api.post("sessions/bulk/", sent)
    assert response.status_code == 400
    assert list(response.json()["errors"]) == [field]
    assert not Session.objects.exists()


def test_a_thousand_cost_as_many_statements_as_two(api: Api) -> None:
    def statements(count: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            submit(api, *[body(retry_policy={"max_retries": n % 7}) for n in range(count)])
        return len(queries)

    statements(1)  # also notes that the token was used
    assert statements(1000) == statements(2) <= 20
