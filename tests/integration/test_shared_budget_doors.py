"""Shared budgets over REST, GraphQL and the SDK: set, refused, listed, and who sees which."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Domain, Project, Queue, RetrySettings
from sessions_app.models.tenants import Role
from sessions_app.services.budgets.sweep import budgets_sweep
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.factories import policy, queue, settle, submit
from tests.graphs import Graph, nodes

SHIPPED = {"ratio": 0.2, "burst": 50, "window": 3600, "over": "postpone", "platform": False}
SETTINGS = "retry-settings/projects/acme/work/"


@pytest.fixture
def root() -> Api:
    return Api(factories.token(factories.user(superuser=True)))


def member(at: Project | Domain, role: Role = Role.MAINTAINER) -> Api:
    place = {"project": at} if isinstance(at, Project) else {"domain": at}
    return Api(factories.token(factories.user(role=role, **place)))


def scopes(api: Api, query: str = "") -> list[str]:
    answer = api.call("GET", f"retry-budgets/{query}")
    assert answer.status_code == 200, answer.content
    return [each["scope"] for each in answer.json()["results"]]


@pytest.mark.django_db
def test_a_maintainer_sets_a_budget_and_removes_it(at: Project) -> None:
    api = member(at)
    answer = api.call("PATCH", SETTINGS, {"retry_budget": {"burst": 5}})
    assert answer.status_code == 200, answer.content
    assert answer.json()["retry_budget"] == SHIPPED | {"burst": 5}
    # Other settings leave it as it is.
    assert api.call("PATCH", SETTINGS, {"mode": "on"}).json()["retry_budget"]["burst"] == 5
    assert api.call("PATCH", SETTINGS, {"retry_budget": None}).json()["retry_budget"] is None
    assert RetrySettings.objects.get(project=at).retry_budget is None
    assert audited_acts().count() == 2


@pytest.mark.django_db
def test_a_queue_has_one(at: Project) -> None:
    api = member(at)
    made = api.post("queues/", {"project": "acme/work", "name": "q", "retry_budget": {}})
    assert made.json()["retry_budget"] == SHIPPED
    changed = api.call("PATCH", "queues/acme/work/q/", {"retry_budget": {"over": "FAIL"}})
    assert changed.json()["retry_budget"] == SHIPPED | {"over": "fail"}
    assert api.call("PUT", "queues/acme/work/q/", {}).json()["retry_budget"] is None
    assert Queue.objects.get(name="q").retry_budget is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ({"ratio": -1}, "retry_budget.ratio", "between 0 and 100"),
        ({"burst": "5"}, "retry_budget.burst", "whole number"),
        ({"window": 59}, "retry_budget.window", "between 60 and 86400"),
        ({"over": "drop"}, "retry_budget.over", "postpone, fail"),
        ({"limit": 5}, "retry_budget.limit", "known field"),
        (7, "retry_budget", ""),
    ],
)
def test_what_is_wrong_is_named(at: Project, value: Any, field: str, words: str) -> None:
    for address in (SETTINGS, f"queues/acme/work/{queue(at).name}/"):
        answer = member(at).call("PATCH", address, {"retry_budget": value})
        assert answer.status_code == 400
        (found,) = answer.json()["errors"].items()
        assert found[0] == field
        assert words in found[1][0]
    assert not RetrySettings.objects.exists()


@pytest.mark.django_db
def test_who_sees_which(at: Project, root: Api) -> None:
    here = queue(at)
    assert root.call("PATCH", f"queues/acme/work/{here.name}/", {"retry_budget": {}})
    for scope in ("cluster", "domains/acme", "projects/acme/work"):
        root.call("PATCH", f"retry-settings/{scope}/", {"retry_budget": {}})
    own = ["acme/work", f"acme/work/{here.name}"]
    assert scopes(root) == ["cluster", "acme", *own]
    assert scopes(root, "?project=acme/work") == own
    assert scopes(member(at.domain)) == ["acme", *own]
    assert scopes(member(at, Role.VIEWER)) == own
    assert scopes(Api(factories.token(factories.user()))) == []
    first = root.call("GET", "retry-budgets/?page_size=1").json()
    second = root.call("GET", first["next"].partition("/api/v2/")[2]).json()
    assert [each["results"][0]["scope"] for each in (first, second)] == ["cluster", "acme"]


@pytest.mark.django_db(transaction=True)
def test_a_budget_says_how_it_stands(at: Project, root: Api) -> None:
    root.call("PATCH", SETTINGS, {"retry_budget": {"ratio": 0.5, "burst": 0}})
    budgets_sweep()
    for _ in range(2):
        settle(submit(at, owner=factories.user(), retry_policy=policy()), exit_code=1)
    budgets_sweep()
    retries_dispatch()
    budgets_sweep()
    (shown,) = root.call("GET", "retry-budgets/").json()["results"]
    counts = {"first_attempts": 2, "retries": 1, "allowed": 1, "left": 0, "held": 1}
    assert {name: shown[name] for name in counts} == counts
    assert shown["key"] == f"project:{at.pk}"
    assert (shown["level"], shown["spent_times"]) == ("project", 2)
    asked = "retryBudgets { edges { node { scope retries held } } }"
    graph = Graph(factories.token(factories.user(superuser=True)))
    found = nodes(graph.ask(f"{{ {asked} }}")["retryBudgets"])
    assert found == [{"scope": "acme/work", "retries": 1, "held": 1}]


@pytest.mark.django_db
def test_a_list_takes_as_many_statements_for_many(at: Project, root: Api) -> None:
    counts = []
    for number in (1, 12):
        for _ in range(number):
            Queue.objects.filter(pk=queue(at).pk).update(retry_budget=SHIPPED)
        root.call("GET", "retry-budgets/")
        with CaptureQueriesContext(connection) as queries:
            assert scopes(root)
        counts.append(len(queries))
    assert counts[0] == counts[1]
