"""A filter that names what is not there is refused, and told what was probably meant."""

from typing import Any

import pytest

from tests import factories
from tests.agent import Api

UNKNOWN = "no project acme/wrok that you may see; did you mean acme/work?"
LISTS = ("sessions", "queues", "webhooks", "memberships", "tokens", "job-sets")
FIELDS = ("queues", "webhooks", "memberships", "tokens", "jobSets")


@pytest.fixture
def api() -> Api:
    factories.project("work", domain="acme")
    return Api(factories.token(factories.user(superuser=True)))


def graphql(api: Api, query: str) -> Any:
    return api.call("POST", "/graphql/", {"query": query}).json()


@pytest.mark.parametrize("name", LISTS)
def test_an_unknown_project_is_an_error(api: Api, name: str) -> None:
    refused = api.get(f"{name}/?project=acme/wrok")
    assert refused.status_code == 400, refused.content
    assert refused.json()["errors"] == {"project": [UNKNOWN]}
    assert api.get(f"{name}/?project=work").json()["errors"] == {
        "project": ["must be written 'domain/name'"]
    }
    assert api.get(f"{name}/?project=acme/work").status_code == 200


def test_graphql_says_the_same(api: Api) -> None:
    for name in FIELDS:
        body = graphql(api, f'{{ {name}(project: "acme/wrok") {{ edges {{ cursor }} }} }}')
        assert body["errors"][0]["extensions"]["errors"] == {"project": [UNKNOWN]}, body
    body = graphql(api, '{ sessions(filter: {project: "acme/wrok"}) { edges { cursor } } }')
    assert body["errors"][0]["extensions"]["errors"] == {"filter.project": [UNKNOWN]}


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_nothing_is_done_to_sessions_of_an_unknown_project(api: Api, action: str) -> None:
    refused = api.post(f"sessions/bulk-{action}/", {"filter": {"project": "acme/wrok"}})
    assert refused.status_code == 400
    assert refused.json()["errors"] == {"filter.project": [UNKNOWN]}


def test_hidden_names_are_not_told(api: Api) -> None:
    other = Api(factories.token(factories.user("eve")))
    body = other.get("sessions/?project=acme/wrok").json()["errors"]
    assert body == {"project": ["no project acme/wrok that you may see"]}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("status=eror", "error"),
        ("retry_cause=oom_kiled", "oom_killed"),
        ("retry_state=schedule", "scheduled"),
        ("session_type=bacth", "batch"),
    ],
)
def test_a_near_miss_is_told_what_was_meant(api: Api, query: str, meant: str) -> None:
    refused = api.get(f"sessions/?{query}")
    assert refused.status_code == 400
    (body,) = refused.json()["errors"][query.partition("=")[0]]
    assert body.lower().endswith(f"; did you mean {meant}?"), body


def test_a_near_miss_in_a_body_is_told_too(api: Api) -> None:
    body = {"project": "acme/work", "command": ["a"], "retry_policy": {"backoff": "exponental"}}
    (error,) = api.post("sessions/", body).json()["errors"]["retry_policy.backoff"]
    assert error.endswith("; did you mean exponential?")
    body["retry_policy"] = {"backoff": "zzz"}
    (error,) = api.post("sessions/", body).json()["errors"]["retry_policy.backoff"]
    assert "did you mean" not in error
