"""Submissions that no executor could ever run are told so, or refused where a project wants it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from graphql_relay import to_global_id

from scheduler.models import Executor
from sessions_app.models import Project, RetrySettings, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Agent, Api, agent
from tests.audit import audited_acts
from tests.graphs import Graph

LARGE = {"cpu": "16"}
WHY = "it fits on no executor: one: cpu, of which it needs 16 and the largest node has 4"
NEAREST = "the nearest, node a, has 8Gi of the 16Gi memory that it needs"
SETTINGS = "retry-settings/projects/acme/work/"


@pytest.fixture
def played() -> Agent:
    made = agent("one", nodes=[node("a"), node("b", cpu="2", memory="32Gi")])
    made.lease()
    return made


def node(name: str, labels: Any = None, taints: Any = (), **amounts: str) -> dict[str, Any]:
    amounts = amounts or {"cpu": "4", "memory": "8Gi"}
    more = {"labels": labels or {}, "taints": [*taints]}
    return {"name": name, "allocatable": amounts, **more}


def asked(**fields: Any) -> dict[str, Any]:
    return {"project": "acme/work", "command": ["true"], **fields}


def warned(api: Api, **fields: Any) -> list[str]:
    response = api.post("sessions/", asked(**fields))
    assert response.status_code == 201, response.content
    return list(response.json().get("warnings", ()))


def refuse(level: str = "projects/acme/work", value: bool | None = True) -> Any:
    root = Api(factories.token(factories.user(superuser=True)))
    answer = root.call("PATCH", f"retry-settings/{level}/", {"refuse_unfittable": value})
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"resources": {"cpu": "4"}}, None),
        ({"resources": LARGE}, WHY.partition("one: ")[2]),
        (
            {"resources": {"cpu": "4500m"}},
            "cpu, of which it needs 4500m and the largest node has 4000m",
        ),
        (
            {"resources": {"requests": {"memory": "64Gi"}}},
            "memory, of which it needs 64Gi and the largest node has 32Gi",
        ),
        (
            {"resources": {"cpu": "3", "memory": "16Gi"}},
            f"no node has all that it needs: 1 of 2 nodes has too little cpu; {NEAREST}",
        ),
        ({"resources": {"cpu": "2"}, "cluster_size": 9}, "of its 9 pods only 3 fit at once"),
        ({"pod_spec": {"nodeSelector": {"gpu": "a100"}}}, "no node has the label gpu=a100"),
    ],
)  # fmt: skip
def test_a_submission_that_fits_nowhere_is_warned_of(
    played: Agent, api: Api, fields: dict[str, Any], why: str | None
) -> None:
    told = [f"it fits on no executor: one: {why}"] if why else []
    assert warned(api, **fields) == told


def test_a_taint_is_said_as_such(played: Agent, api: Api) -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    played.nodes = [node("a", labels={"gpu": "a100"}, taints=[taint]), node("b")]
    played.lease()
    (why,) = warned(api, pod_spec={"nodeSelector": {"gpu": "a100"}})
    assert why.endswith(
        "one: no node has all that it needs: 1 of 2 nodes has no label gpu=a100; the nearest,"
        " node a, has the taint dedicated, which it does not tolerate"
    )
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    tolerant = {"nodeSelector": {"gpu": "a100"}, "tolerations": tolerations}
    assert warned(api, pod_spec=tolerant) == []


def test_the_largest_executor_of_the_project_counts(at: Project, played: Agent, api: Api) -> None:
    other = agent("other", nodes=[node("x", cpu="8")])
    other.lease()
    (why,) = warned(api, resources=LARGE)
    sizes = "cpu, of which it needs 16 and the largest node has"
    assert why == f"it fits on no executor: other: {sizes} 8; one: {sizes} 4"
    # Not of another project; nor what never called.
    agent("huge", nodes=[node("y", cpu="64")])
    elsewhere = agent("elsewhere", nodes=[node("z", cpu="64")])
    elsewhere.executor.projects.set([factories.project("other")])
    elsewhere.lease()
    assert warned(api, resources=LARGE) == [why]
    elsewhere.executor.projects.set([at])
    assert warned(api, resources=LARGE) == []


def test_nodes_that_change_are_seen(played: Agent, api: Api) -> None:
    assert warned(api, resources=LARGE) == [WHY]
    played.nodes = [node("a", cpu="16")]
    played.lease()
    assert warned(api, resources=LARGE) == []
    # As a server of the previous version leaves it.
    Executor.objects.update(nodes_digest="", nodes=[node("a")])
    assert warned(api, resources=LARGE) == [WHY]


def test_a_project_without_executors_is_told_so_and_never_refused(at: Project, api: Api) -> None:
    elsewhere = agent("elsewhere", nodes=[node("z", cpu="64")])
    elsewhere.executor.projects.set([factories.project("other")])
    elsewhere.lease()
    nobody = "no executor serves its project: it waits until one does"
    assert (warned(api), warned(api, resources=LARGE)) == ([nobody], [nobody])
    refuse()
    assert warned(api, resources=LARGE) == [nobody]
    # One that has never called has no nodes to compare with.
    new = [agent(f"new-{number}", nodes=[node("y")]) for number in range(5)]
    silent = "no executor of its project has called yet: new-0; new-1; new-2; and 2 more"
    assert (warned(api), warned(api, resources=LARGE)) == ([silent], [silent])
    new[1].lease()
    assert warned(api) == []
    assert api.post("sessions/", asked(resources=LARGE)).status_code == 400


def test_a_bulk_call_reads_the_executors_once(
    played: Agent, api: Api, django_assert_num_queries: Any, django_assert_max_num_queries: Any
) -> None:
    def submit(*resources: dict[str, str]) -> Any:
        body = {"sessions": [asked(resources=each) for each in resources]}
        return api.post("sessions/bulk/", body).json()["results"]

    submit(LARGE)
    with django_assert_max_num_queries(100) as few:
        submit({}, {})
    with django_assert_num_queries(len(few)):
        results = submit(LARGE, {"cpu": "1"}, LARGE, {"cpu": "99"})
    assert [len(each["warnings"]) for each in results] == [1, 0, 1, 1]
    refuse()
    results = submit(LARGE, {"cpu": "1"})
    assert [each["outcome"] for each in results] == ["refused", "created"]
    assert results[0]["problem"]["errors"] == {"resources": [WHY]}


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("resources", {"resources": LARGE}),
        ("pod_spec", {"pod_spec": {"nodeSelector": {"gpu": "a100"}}}),
        ("cluster_size", {"resources": {"cpu": "4"}, "cluster_size": 2}),
    ],
)
def test_a_project_may_refuse_it(
    played: Agent, api: Api, field: str, fields: dict[str, Any]
) -> None:
    refuse()
    response = api.post("sessions/", asked(**fields))
    assert response.status_code == 400
    errors = response.json()["errors"]
    assert list(errors) == [field]
    assert errors[field][0].startswith("it fits on no executor: one: ")
    assert not Session.objects.exists()
    assert warned(api, resources={"cpu": "4"}) == []


RETRIES = [
    ({"resources": LARGE}, WHY),
    ({"changes": {"resources": LARGE}}, WHY),
    (
        {"changes": {"pod_spec": {"nodeSelector": {"gpu": "a100"}}}},
        "it fits on no executor: one: no node has the label gpu=a100",
    ),
    ({"changes": {"image": "b"}}, None),
    ({"resources": {"cpu": "2"}}, None),
]


@pytest.mark.parametrize(("body", "why"), RETRIES)
@pytest.mark.parametrize("refuses", [False, True])
def test_a_retry_with_changes_is_told_the_same_or_refused(
    at: Project, played: Agent, api: Api, body: dict[str, Any], why: str | None, refuses: bool
) -> None:
    if refuses:
        refuse()
    root = Api(factories.token(factories.user(superuser=True)))
    one, two = (factories.settle(factories.submit(at, resources={"cpu": "1"})) for _ in range(2))
    told = [why] if why else []
    path = f"sessions/{one.pk}/retry/"
    bulk = {"filter": {"root": str(two.pk)}, **body}
    answers = [root.post(path, {**body, "dry_run": True}), root.post(path, body)]
    dry = root.post("sessions/bulk-retry/", {**bulk, "dry_run": True}).json()["results"]
    made = root.post("sessions/bulk-retry/", bulk).json()["results"]
    if refuses and why:
        field = "changes.pod_spec" if "pod_spec" in str(body) else "changes.resources"
        assert [each.status_code for each in answers] == [400, 400]
        assert answers[0].json()["errors"] == {field: [why]}
        assert {each["outcome"] for each in (*dry, *made)} == {"refused"}
        assert made[0]["problem"]["errors"] == {field: [why]}
        assert Session.objects.count() == 2
    else:
        assert [each.status_code for each in answers] == [200, 201]
        assert [each.json().get("warnings", []) for each in answers] == [told, told]
        assert [each.get("warnings", []) for each in (*dry, *made)] == [told, told]
        assert Session.objects.count() == 4


def test_every_door_of_retries_tells_it(
    at: Project, played: Agent, graph: Graph, client: Any
) -> None:
    boss = factories.user("boss", superuser=True)
    first, second, third = (
        factories.settle(factories.submit(at, owner=boss, resources={"cpu": "1"})) for _ in range(3)
    )
    graph = Graph(factories.token(boss))
    one = "mutation($i: RetrySessionInput!) { retrySession(input: $i) { warnings } }"
    many = "mutation($i: RetrySessionsInput!) { retrySessions(input: $i) { results { warnings } } }"
    key = to_global_id("Session", str(first.pk))
    done = graph.ask(one, i={"id": key, "resources": LARGE})["retrySession"]
    assert done == {"warnings": [WHY]}
    root = to_global_id("Session", str(second.pk))
    some = graph.ask(many, i={"filter": {"root": root}, "resources": LARGE})["retrySessions"]
    assert some["results"] == [{"warnings": [WHY]}]
    client.force_login(boss)
    page = f"/sessions/{third.pk}/retry/"
    fields = dict.fromkeys(("image", "batch_timeout", "environ", "reason"), "")
    sent = {**fields, "command": "true", "priority": "0", "resources": "cpu=16"}
    shown = client.post(page, sent, follow=True).content.decode()
    assert f"Warning: {WHY}." in shown


def test_a_known_creation_id_finds_its_session_all_the_same(played: Agent, api: Api) -> None:
    body = asked(resources=LARGE, creation_id="mine")
    first = api.post("sessions/", body)
    refuse()
    again = api.post("sessions/", body)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


def test_the_closest_scope_that_says_something_decides(played: Agent, api: Api) -> None:
    def status() -> int:
        return int(api.post("sessions/", asked(resources=LARGE)).status_code)

    assert refuse("cluster")["effective_refuse_unfittable"] is True
    assert status() == 400
    assert refuse("domains/acme", value=False)["refuse_unfittable"] is False
    assert status() == 201
    refuse()
    assert status() == 400
    settings = refuse(value=None)
    assert (settings["refuse_unfittable"], settings["effective_refuse_unfittable"]) == (None, False)
    assert (status(), settings["mode"]) == (201, "on")
    acts = audited_acts().values_list("action", "object_id")
    assert ("retry_settings.change", "acme/work") in acts


def test_only_maintainers_may_set_it(at: Project, api: Api) -> None:
    assert api.call("PATCH", SETTINGS, {"refuse_unfittable": True}).status_code == 403
    root = Api(factories.token(factories.user(superuser=True)))
    wrong = root.call("PATCH", SETTINGS, {"refuse_unfittable": "yes"})
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["refuse_unfittable"])
    assert not RetrySettings.objects.exists()


def test_graphql_has_all_of_it(played: Agent, at: Project, graph: Graph) -> None:
    create = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
        warnings errors { field message } } }"""
    body = {"project": "acme/work", "command": ["true"], "resources": LARGE}
    assert graph.ask(create, input=body)["createSession"] == {"warnings": [WHY], "errors": []}
    change = """mutation($input: UpdateRetrySettingsInput!) { updateRetrySettings(input: $input) {
        retrySettings { refuseUnfittable effectiveRefuseUnfittable } } }"""
    scope = {"domain": "acme", "project": "work"}
    settings = graph.ask(change, input={**scope, "refuseUnfittable": True})["updateRetrySettings"][
        "retrySettings"
    ]
    assert settings == {"refuseUnfittable": True, "effectiveRefuseUnfittable": True}
    refused = graph.ask(create, input=body)["createSession"]["errors"]
    assert refused == [{"field": "resources", "message": WHY}]


def test_the_page_of_the_project_sets_it_and_tells(
    played: Agent, at: Project, client: Any, owner: User
) -> None:
    page = "/projects/acme/work/"
    client.force_login(owner)
    body = "image: a\nresources: {cpu: 16}"
    assert WHY in client.post(f"{page}would-get/", {"body": body}).content.decode()
    assert "accepted with a warning" in client.get(page).content.decode()
    client.post(f"{page}submissions/", {"refuse_unfittable": "true"})
    assert RetrySettings.objects.get(project=at).refuse_unfittable is True
    assert "In effect: they are refused." in client.get(page).content.decode()
    refused = client.post(f"{page}would-get/", {"body": body}).content.decode()
    assert f"resources (line 2): {WHY}" in refused
    client.post(f"{page}submissions/", {"refuse_unfittable": "x"})
    assert RetrySettings.objects.get(project=at).refuse_unfittable is True
    client.force_login(factories.user("vera", project=at, role=Role.VIEWER))
    assert client.post(f"{page}submissions/", {"refuse_unfittable": ""}).status_code == 403


def test_the_page_of_the_project_holds_its_retries_and_lets_them_go(
    played: Agent, at: Project, client: Any, owner: User
) -> None:
    page = "/projects/acme/work/"
    client.force_login(owner)
    assert 'id="switch"' in client.get(page).content.decode()
    for mode, told in (("paused", "Retries are <strong>paused</strong> here."), ("on", "")):
        done = client.post(f"{page}retries/", {"mode": mode}, follow=True).content.decode()
        assert f"Retries of acme/work are {mode}." in done
        assert RetrySettings.objects.get(project=at).mode == mode
        assert told in done
    client.post(f"{page}retries/", {"mode": "x"})
    assert RetrySettings.objects.get(project=at).mode == "on"
    client.force_login(factories.user("vera", project=at, role=Role.VIEWER))
    assert client.post(f"{page}retries/", {"mode": "off"}).status_code == 403
