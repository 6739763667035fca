"""The door at /graphql/: who comes in, what may be sent, and how it is answered."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from graphql import get_introspection_query

from sessions_app.instruments import registry
from sessions_app.models import AuditEntry, Project
from tests import factories
from tests.graphs import ADDRESS, Graph

VIEWER = "{ viewer { username clusterAdmin tokenName readOnly project } }"
PROBLEM = "application/problem+json"


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def graph(ann: User) -> Graph:
    return Graph(factories.token(ann))


def problem(response: Any, status: int) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    assert response.status_code == body["status"] == status, body
    assert response["Content-Type"] == PROBLEM
    return body


def test_a_token_answers_with_its_user(at: Project, ann: User) -> None:
    narrowed = Graph(factories.token(ann, project=at, read_only=True))
    assert narrowed.ask(VIEWER)["viewer"] == {
        "username": "ann", "clusterAdmin": False, "tokenName": "test", "readOnly": True,
        "project": "acme/work",
    }  # fmt: skip


@pytest.mark.parametrize("token", [None, "rpt_wrong"])
def test_without_a_valid_token_nothing_is_read(token: str | None) -> None:
    response = Graph(token).send(VIEWER)
    problem(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_executors_are_refused() -> None:
    problem(Graph(factories.token(executor_name="one")).send(VIEWER), 403)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "GET", "HEAD"])
def test_queries_come_by_post(graph: Graph, method: str) -> None:
    response = graph.call(method, f"{ADDRESS}?query={{viewer{{username}}}}")
    assert response.status_code == 405


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/graphql", VIEWER.encode(), 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("application/x-www-form-urlencoded", b"query=%7Bviewer%7Busername%7D%7D", 415),
        ("application/json", b"{", 400),
        ("application/json", b"[]", 400),
        ("application/json", json.dumps([{"query": VIEWER}]).encode(), 400),
        ("application/json", b"", 400),
        ("application/json", b"{}", 400),
        ("application/json", b'{"query": ""}', 400),
        ("application/json", b'{"query": 1}', 400),
        ("application/json", b'{"query": "{viewer}", "query": "{viewer}", "id": 1}', 400),
        ("application/json", b'{"query": "{viewer}", "variables": []}', 400),
        ("application/json", b'{"query": "{viewer}", "variables": {"a": "\\u0000"}}', 400),
        ("application/json", b'{"query": "\\ud800"}', 400),
        ("application/json", b'{"query": "' + b"x" * 1024 * 1024 + b'"}', 413),
    ],
)
def test_a_malformed_call_is_a_problem(
    graph: Graph, content_type: str, body: bytes, status: int
) -> None:
    problem(graph.post(ADDRESS, body, content_type=content_type), status)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("{", "SYNTAX"),
        ("", "SYNTAX"),
        ("{ nothing }", "INVALID"),
        ("query A { viewer { username } } query B { viewer { username } }", "INVALID"),
        ("fragment A on Viewer { username }", "INVALID"),
        ("mutation { nothing }", "INVALID"),
        ("subscription { nothing }", "INVALID"),
        ("query($n: Int!) { sessions(first: $n) { edges { cursor } } }", "INVALID"),
        ('{ sessions(first: "x") { edges { cursor } } }', "INVALID"),
        ('{ session(id: "a\\u0000") { name } }', "TOO_COMPLEX"),
        ("{ sessions(filter: {status: NOWHERE}) { edges { cursor } } }", "INVALID"),
        ("{ viewer { ...A } } fragment A on Viewer { ...A }", "INVALID"),
    ],
)
def test_a_document_that_cannot_run_says_why(graph: Graph, query: str, code: str) -> None:
    response = graph.send(query or "#")
    assert response.status_code == 400
    body = response.json()
    assert "data" not in body
    assert {error["extensions"]["code"] for error in body["errors"]} == {code}
    assert all(error["message"] for error in body["errors"])


def test_the_media_type_of_graphql_is_spoken(graph: Graph) -> None:
    kind = "application/graphql-response+json"
    headers = {"Authorization": f"Bearer {graph.token}", "Accept": f"{kind}, application/json"}
    response = graph.post(ADDRESS, {"query": VIEWER}, headers=headers)
    assert response["Content-Type"] == kind


def test_one_budget_serves_both_doors(graph: Graph, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "token_requests_per_minute": 2}
    graph.read("whoami/")
    graph.ask(VIEWER)
    response = graph.send(VIEWER)
    problem(response, 429)
    assert int(response["Retry-After"]) > 0


def test_a_browser_has_a_budget_too(ann: User, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "token_requests_per_minute": 1}
    browser = Client()
    browser.force_login(ann)
    statuses = [
        browser.post(ADDRESS, {"query": VIEWER}, content_type="application/json").status_code
        for _ in range(2)
    ]
    assert statuses == [200, 429]


def test_a_browser_must_say_where_its_call_comes_from(ann: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ann)
    call = {"query": VIEWER}
    problem(browser.post(ADDRESS, call, content_type="application/json"), 403)
    page = browser.get(ADDRESS, headers={"Accept": "text/html"})
    assert page.status_code == 200
    token = browser.cookies["csrftoken"].value
    response = browser.post(
        ADDRESS, call, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert response.json()["data"]["viewer"]["username"] == "ann"
    assert response.json()["data"]["viewer"]["tokenName"] == ""
    made = {"query": 'mutation { createToken(input: {name: "ci"}) { token { prefix } } }'}
    browser.post(ADDRESS, made, content_type="application/json", headers={"X-CSRFToken": token})
    entry = AuditEntry.objects.latest("id")
    assert (entry.actor, entry.action, list(entry.via)) == ("ann", "token.create", ["request_id"])


def test_the_schema_can_be_asked_for(graph: Graph, settings: Any) -> None:
    query = get_introspection_query(
        input_value_deprecation=True, schema_description=True, specified_by_url=True
    )
    assert graph.ask(query)["__schema"]["queryType"]["name"] == "Query"
    settings.REPRISE_GRAPHQL_INTROSPECTION = False
    for asked in (query, '{ __type(name: "Session") { name } }'):
        response = graph.send(asked)
        assert response.status_code == 400
        assert "data" not in response.json()
    # What a type is called may be asked of any object.
    assert graph.ask("{ __typename }") == {"__typename": "Query"}


def test_unexpected_errors_show_no_details(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    graph.ask(VIEWER)
    monkeypatch.setattr("sessions_app.authorization.Actor.is_cluster_admin", 1 / 3)
    monkeypatch.setattr("sessions_app.authorization.Actor.projects", None)
    error = graph.refused("{ projects { edges { cursor } } }")
    assert error["extensions"] == {"code": "INTERNAL", "status": 500, "errors": {}}
    assert "NoneType" not in json.dumps(error)
    assert "NoneType" in caplog.text


CANCEL = """mutation { cancelSession(input: {id: "01890000-0000-7000-8000-000000000000"}) {
    errors { code } } }"""


@pytest.mark.parametrize(
    ("query", "code"),
    [("{ no }", "INVALID"), ("{ no", "SYNTAX"), (CANCEL, "NOT_FOUND")],
)
def test_errors_are_counted_by_code(graph: Graph, query: str, code: str) -> None:
    def counted() -> float:
        return registry.get_sample_value("reprise_graphql_errors_total", {"code": code}) or 0.0

    before = counted()
    assert code in graph.send(query).content.decode()
    assert counted() == before + 1
