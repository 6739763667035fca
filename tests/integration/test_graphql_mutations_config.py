"""Configuration over GraphQL: versions, ways to write a policy, quotas, and what is told once."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project, RetryPolicy, Session, WebhookEndpoint
from sessions_app.models.tenants import Role
from sessions_app.services.secrets.stored import secret_read
from tests import factories
from tests.graphs import Graph
from tests.mutation_table import HERE, MATCHERS, POLICY
from tests.mutations import change, done, refusal

VERSIONED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("updateQueue", "queue", {**HERE, "name": "default"}, {"priorityFactor": 3}),
    ("replaceQueue", "queue", {**HERE, "name": "default"}, {"priorityFactor": 3}),
    ("updateRetryDefaults", "retryDefaults", HERE, {"policy": {"maxRetries": 3}}),
    ("replaceRetryDefaults", "retryDefaults", {}, {"policy": {"maxRetries": 3}}),
    ("updateRetrySettings", "retrySettings", {"domain": "acme"}, {"mode": "OFF"}),
    ("replaceRetrySettings", "retrySettings", {}, {"mode": "PAUSED", "retriesPerMinute": 5}),
    ("applyRetryPolicy", "retryPolicy", {**HERE, "name": "quick"}, {"spec": {"retryLimit": 3}}),
    ("replaceFailureCategory", "failureCategory", {"name": "cuda"}, {"matchers": MATCHERS}),
]


@pytest.mark.parametrize(("mutation", "what", "about", "body"), VERSIONED)
def test_two_do_not_overwrite_each_other(
    graph: Graph, mutation: str, what: str, about: dict[str, Any], body: dict[str, Any]
) -> None:
    select = f"{what} {{ version }}"
    first = done(graph, mutation, select, **about, **body)[what]["version"]
    # Somebody else is quicker.
    other = {"matchers": MATCHERS[:1] * 2} if "matchers" in body else _other(body)
    second = done(graph, mutation, select, **about, **other, ifMatch=first)[what]["version"]
    assert second != first
    stale = change(graph, mutation, select, **about, **body, ifMatch=first)
    assert stale[what] is None
    assert [error["code"] for error in stale["errors"]] == ["OUTDATED"]
    assert refusal(graph, mutation, **about, **body, ifMatch=" ") == ("INVALID", "ifMatch")
    assert done(graph, mutation, select, **about, **body, ifMatch=second)


def _other(body: dict[str, Any]) -> dict[str, Any]:
    ((name, value), *_) = body.items()
    if isinstance(value, dict):
        return {name: dict.fromkeys(value, 9)}
    return {name: "ON" if isinstance(value, str) else 9}


def test_a_policy_comes_in_three_ways(graph: Graph) -> None:
    yaml = """
        apiVersion: reprise/v1
        kind: RetryPolicy
        metadata: {name: quick, project: work, domain: acme}
        spec: {retryLimit: 4}
    """
    select = "created retryPolicy { name metadata spec project { address } }"
    made = done(graph, "applyRetryPolicy", select, yaml=yaml)
    assert made["created"] is True
    assert made["retryPolicy"]["project"] == {"address": "acme/work"}
    again = done(graph, "applyRetryPolicy", select, **HERE, name="quick", spec={"retryLimit": 4})
    assert again == {**made, "created": False}
    assert RetryPolicy.objects.get().revision == 1
    changed = done(graph, "applyRetryPolicy", select, **HERE, document=POLICY)
    assert changed["retryPolicy"]["spec"] == POLICY["spec"]
    assert RetryPolicy.objects.get().revision == 2
    assert refusal(graph, "createRetryPolicy", **HERE, document=POLICY)[0] == "CONFLICT"
    gone = done(graph, "deleteRetryPolicy", "outcome deletedId", **HERE, name="quick")
    assert gone["outcome"] == "deleted"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "spec"),
        ({"spec": {}, "yaml": "a: b"}, "spec"),
        ({"spec": {}}, "name"),
        ({"spec": {}, "name": "Bad"}, "name"),
        ({"spec": {"retryLimit": -1}, "name": "a"}, "spec.retryLimit"),
        ({"name": "a", "spec": {"rules": [{"action": "Retry"}]}}, "spec.rules[0]"),
        ({"yaml": "a: [b"}, "yaml"),
        ({"yaml": "kind: Queue"}, "yaml.kind"),
        ({"document": {**POLICY, "spec": {"rules": [{"my_key": 1}]}}}, "document.spec.rules[0]"),
        ({"document": POLICY, "name": "other"}, "document.metadata.name"),
        ({"document": POLICY, "project": "acme"}, "project"),
    ],
)
def test_errors_of_a_policy_are_named(graph: Graph, given: dict[str, Any], field: str) -> None:
    errors = change(graph, "applyRetryPolicy", **given)["errors"]
    assert {error["code"] for error in errors} == {"INVALID"}
    assert any((error["field"] or "").startswith(field) for error in errors), errors
    assert not RetryPolicy.objects.exists()


def test_a_quota_that_is_reached_is_told(graph: Graph, at: Project) -> None:
    answer = done(
        graph, "updateQuotas", "quotas { pendingSessions resources }", **HERE, pendingSessions=1
    )
    assert answer["quotas"] == {"pendingSessions": 1, "resources": {}}
    ann = Graph(factories.token(factories.user("ann", project=at)))
    done(ann, "createSession", **HERE, image="x")
    (error,) = change(ann, "createSession", **HERE, image="x")["errors"]
    assert error["code"] == "QUOTA_EXCEEDED"
    assert error["details"]["quota"]
    assert Session.objects.count() == 1
    assert refusal(graph, "updateQuotas", pendingSessions=1) == ("INVALID", "project")


def test_secrets_are_told_once(graph: Graph, at: Project) -> None:
    mia = Graph(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))
    made = done(mia, "createToken", "secret token { id prefix }", name="ci", **HERE)
    assert Graph(made["secret"]).read("whoami/")["username"] == "mia"
    gone = done(mia, "revokeToken", "revoked", id=made["token"]["id"])
    assert gone["revoked"] == [made["token"]["prefix"]]
    assert Graph(made["secret"]).get("whoami/").status_code == 401
    hook = done(mia, "createWebhook", "secret webhook { id }", **HERE, url="https://example.com/")
    turned = done(mia, "rotateWebhookSecret", "secret", id=hook["webhook"]["id"])
    stored = WebhookEndpoint.objects.get().secret
    assert hook["secret"] != turned["secret"] == secret_read(stored)
    agent = done(graph, "createExecutor", "token executor { name }", name="one")
    renewed = done(graph, "renewExecutorToken", "token", name="one")
    assert agent["token"] != renewed["token"]


def test_many_sessions_are_a_fixed_number_of_statements(at: Project) -> None:
    graph = Graph(factories.token(factories.user(project=at)))
    select = "results { outcome session { name retryCount owner } }"

    def statements(count: int) -> int:
        with CaptureQueriesContext(connection) as asked:
            done(graph, "createSessions", select, sessions=[{**HERE, "image": "x"}] * count)
        return len(asked)

    statements(1)  # what is looked up once
    assert statements(3) == statements(30)
