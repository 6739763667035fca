"""Tests that nothing hidden is told: by no list, filter, cursor, count, name or error text."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from scheduler.models import Node
from tests import factories
from tests.integration.authorization_table import EXPECTED, document
from tests.people import SECRET, UNSEEN, World

LISTS = [
    path
    for method, path in EXPECTED
    if method == "GET" and "<" not in path and path not in {"schema/", "docs/"}
]
HIDDEN = {
    "project": "acme/work",
    "domain": "acme",
    "queue": "one",
    "name": "one",
    "job_set": "one",
    "owner": "owner",
    "user": "owner",
    "executor": "one",
    "node": "node-1",
    "image": SECRET,
    "root": "{session}",
    "parent": "{session}",
    "made_with": "{prefix}",
    "actor": SECRET,
    "action": "retry_defaults.create",
    "object_type": "webhook",
    "object_id": "acme/work/one&object_type=queue",
    "session": "{session}",
    "chain": "{session}",
    "policy": SECRET,
    "rule": f"{SECRET}/{SECRET}",
}
"""What a filter is asked for: something in `acme/work`."""
GHOSTS = dict.fromkeys(HIDDEN, "ghost") | {
    "project": "void/ghost",
    "root": str(UUID(int=7)),
    "parent": str(UUID(int=7)),
    "made_with": "rpr_ghostgho",
    "object_id": "acme/other/ghost&object_type=queue",
    "session": str(UUID(int=7)),
    "chain": str(UUID(int=7)),
    "rule": "ghost/ghost",
}
SEARCHED = {
    "sessions/": ("{session}", SECRET),
    "projects/": ("work",),
    "domains/": ("acme",),
}
"""The `search` of each list that has one."""
HARMLESS = {
    *("cursor", "page_size", "ordering", "archived", "cordoned", "paused", "read_only", "expired"),
    *("status", "session_type", "retry_cause", "failure_category", "retry_state", "exit_code"),
    *("signature", "cause", "muted", "since", "until", "state"),
    *("tip", "created_after", "created_before", "role", "health", "driver", "effective", "search"),
    *("format", "lang", "door", "automatic", "expand", "by"),
}
"""Parameters that name nothing which exists somewhere only."""


@cache
def parameters() -> dict[str, list[str]]:
    """The query parameters of each list, as the OpenAPI document has them."""
    text = (Path(__file__).parents[2] / "docs" / "openapi.yaml").read_text()
    paths = yaml.load(text, yaml.CSafeLoader)["paths"]
    return {
        path.removeprefix("/api/v2/"): [
            each["name"]
            for each in operations.get("get", {}).get("parameters", ())
            if each["in"] == "query"
        ]
        for path, operations in paths.items()
    }


def filters() -> list[tuple[str, str]]:
    """Every list with every filter that names something."""
    return [
        (route, name)
        for route in LISTS
        for name in parameters()[route]
        if name not in HARMLESS or name == "search"
    ]


def test_every_filter_is_known_here() -> None:
    for route, name in filters():
        known = route in SEARCHED if name == "search" else name in HIDDEN
        assert known, f"{route} has a new filter {name}: give it a row, or say that it is harmless"


@pytest.mark.parametrize(("route", "name"), filters(), ids=[" ".join(each) for each in filters()])
def test_a_filter_that_means_what_one_may_not_see_finds_as_much_as_one_that_means_nothing(
    world: World, route: str, name: str
) -> None:
    values = SEARCHED[route] if name == "search" else (HIDDEN[name],)
    if route == "audit/":
        log_something(world)
    if route == "nodes/":
        # The executor `one` serves all projects, so everybody may know its nodes.
        own, values = factories.executor("own", projects=(world.project,)), ("own",)
        Node.objects.create(executor=own, name="n1", address="own/n1")
    for who in UNSEEN:
        # Whoever works in another project of the domain may know of it.
        if who in {"neighbour", "elsewhere"} and "acme" in values:
            continue
        ghost = GHOSTS.get(name, "ghost")
        missing = answer(world, who, f"{route}?{name}={ghost}", ghost)
        for value in values:
            asked = value.format(session=world.session.pk, prefix=world.prefix("owner"))
            assert answer(world, who, f"{route}?{name}={asked}", asked) == missing, who
            assert SECRET not in missing


def log_something(world: World) -> None:
    """Let the log tell of the session, too."""
    assert world.api("owner").post(f"sessions/{world.session.pk}/cancel/").status_code == 200


@pytest.mark.parametrize("name", [name for route, name in filters() if route == "audit/"])
def test_each_filter_of_the_log_means_something_there(world: World, name: str) -> None:
    log_something(world)
    asked = HIDDEN[name].format(session=world.session.pk, prefix=world.prefix("owner"))
    rows = world.api("admin").read(f"audit/?{name}={asked}")["results"]
    assert {row["domain"] for row in rows} == {"acme"}


@pytest.mark.parametrize("who", ["scoped", "maintainer", *UNSEEN])
@pytest.mark.parametrize("domain", ["acme", "globex"])
def test_the_log_of_a_domain_is_for_its_admins(world: World, who: str, domain: str) -> None:
    refused = world.api(who).get(f"audit/?domain={domain}")
    assert refused.status_code in {400, 403}
    assert SECRET not in refused.content.decode()


def answer(world: World, who: str, path: str, *echoed: str) -> str:
    """An answer without what was sent, and without what time it is."""
    response = world.api(who).get(path)
    text = f"{response.status_code} {json.dumps(_timeless(response.json()), sort_keys=True)}"
    for value in echoed:
        text = text.replace(value, "X")
    return text


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    if isinstance(value, dict):
        times = {"at", "window", "cause_window", "last_used_at"}
        return {name: _timeless(each) for name, each in value.items() if name not in times}
    return value


@pytest.mark.parametrize("route", LISTS)
def test_no_list_tells_how_much_there_is_elsewhere(world: World, route: str) -> None:
    before = {who: answer(world, who, route) for who in UNSEEN}
    seen = answer(world, "admin", route)
    world.grow()
    assert {who: answer(world, who, route) for who in UNSEEN} == before
    assert SECRET not in "".join(before.values())
    grows = route not in {
        "whoami/",
        "failure-categories/",
        "priority-classes/",
        "executors/",
        "domains/",
        "projects/",
    }
    unscoped = {"retry-defaults/cluster/", "retry-settings/cluster/"}
    assert (answer(world, "admin", route) != seen) == (grows and route not in unscoped)


@pytest.mark.parametrize("route", [route for route in LISTS if "cursor" in parameters()[route]])
def test_a_cursor_that_another_one_got_shows_no_more(world: World, route: str) -> None:
    world.grow()
    page = world.api("admin").read(f"{route}?page_size=1")
    for who in UNSEEN:
        own = {json.dumps(each) for each in pages(world, who, f"{route}?page_size=2")}
        follow = page["next"]
        if follow is None:
            continue
        response = world.api(who).get(follow)
        shown = [json.dumps(_timeless(each)) for each in response.json().get("results", ())]
        assert own >= set(shown), who
        assert SECRET not in response.content.decode(), who


def pages(world: World, who: str, path: str) -> list[Any]:
    api = world.api(who)
    if api.get(path).status_code != 200:
        return []
    return [_timeless(each) for page in api.pages(path) for each in page]


SESSION = {"command": ["true"]}
NAMES = {
    "sessions/": ({**SESSION, "project": "{project}"}, "project"),
    "sessions/bulk/": ({"sessions": [{**SESSION, "project": "{project}"}]}, None),
    "sessions/bulk-cancel/": (
        {"filter": {"project": "{project}"}, "dry_run": True},
        "filter.project",
    ),
    "sessions/bulk-give-up/": (
        {"filter": {"project": "{project}"}, "dry_run": True},
        "filter.project",
    ),
    "sessions/bulk-preempt/": (
        {"filter": {"project": "{project}"}, "dry_run": True},
        "filter.project",
    ),
    "sessions/bulk-update/": (
        {"filter": {"project": "{project}"}, "priority": 5, "dry_run": True},
        "filter.project",
    ),
    "sessions/bulk-retry/": (
        {"filter": {"project": "{project}"}, "dry_run": True},
        "filter.project",
    ),
    "queues/": ({"name": "new", "project": "{project}"}, "project"),
    "webhooks/": ({"url": "https://example.com/", "project": "{project}"}, "project"),
    "breakers/": ({"signature": "fedcba987654", "project": "{project}"}, "project"),
    "memberships/": ({"user": "nobody", "role": "viewer", "project": "{project}"}, "project"),
    "tokens/": ({"name": "new", "project": "{project}"}, "project"),
    "retry-policies/simulate/": (
        {
            "history": {
                "project": "{project}",
                "since": "2030-01-01T00:00:00Z",
                "until": "2030-01-02T00:00:00Z",
            }
        },
        "history.project",
    ),
}
"""Calls that name a project in their body, and the field which is then at fault."""


@pytest.mark.parametrize("route", NAMES)
@pytest.mark.parametrize("who", UNSEEN)
def test_naming_what_one_may_not_see_is_naming_what_is_not_there(
    world: World, who: str, route: str
) -> None:
    body, field = NAMES[route]
    answers = []
    for address in ("acme/work", "void/ghost", "acme/ghost"):
        sent = json.loads(json.dumps(body).replace("{project}", address))
        response = world.api(who).post(route, sent)
        assert response.status_code == (200 if field is None else 400), response.content
        if field is not None:
            assert list(response.json()["errors"]) == [field]
        answers.append(response.content.replace(address.encode(), b"X"))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("who", UNSEEN)
def test_a_document_of_a_hidden_scope_is_one_of_no_scope(world: World, who: str) -> None:
    answers = []
    for domain, project in (("acme", "work"), ("void", "ghost")):
        sent = document("new")
        sent["metadata"] |= {"domain": domain, "project": project}
        response = world.api(who).post("retry-policies/", sent)
        assert response.status_code == 400
        text = response.content.decode().replace(f"{domain}/{project}", "X")
        answers.append(text)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("who", ["stranger", "nobody", "elsewhere"])
@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("projects/", {"name": "new"}),
        ("memberships/", {"user": "nobody", "role": "viewer"}),
    ],
    ids=["projects", "memberships"],
)
def test_naming_a_hidden_domain_is_naming_none(
    world: World, who: str, route: str, body: dict[str, str]
) -> None:
    answers = set()
    for domain in ("acme", "void"):
        response = world.api(who).post(route, {**body, "domain": domain})
        assert response.status_code == 400
        assert list(response.json()["errors"]) == ["domain"]
        answers.add(response.content.replace(domain.encode(), b"X"))
    assert len(answers) == 1


def test_records_of_other_projects_cannot_be_named(world: World) -> None:
    """A queue, a policy and a `creation_id` of another project are as if they were not."""
    asked = {"project": "globex/far", **SESSION}
    api = world.api("stranger")
    for field, hidden, ghost in (
        ("queue", "one", "ghost"),
        ("retry_policies", [f"{SECRET}-one"], ["ghost"]),
    ):
        answers = set()
        for value in (hidden, ghost):
            response = api.post("sessions/", {**asked, field: value})
            assert response.status_code == 400
            assert list(response.json()["errors"]) == [field]
            name = value if isinstance(value, str) else value[0]
            answers.add(response.content.replace(name.encode(), b"X"))
        assert len(answers) == 1
    ids = {"creation_id": world.session.creation_id}
    assert api.post("sessions/", {**asked, **ids}).status_code == 201
    for name in (f"{SECRET}-one", "one-more"):
        path = f"retry-policies/{name}/?project=globex/far"
        assert api.call("PUT", path, document(name)).status_code == 201


def test_only_who_gives_roles_learns_who_has_an_account(world: World) -> None:
    for who, status in (("maintainer", 403), ("domain_admin", 400), ("neighbour", 400)):
        answers = set()
        for user in ("stranger", "ghost"):
            body = {"user": user, "role": "viewer", "project": "acme/work"}
            response = world.api(who).post("memberships/", body)
            made = (who, user) == ("domain_admin", "stranger")
            assert response.status_code == (201 if made else status)
            answers.add(response.content.replace(user.encode(), b"X"))
        assert len(answers) == (2 if who == "domain_admin" else 1), who


def test_deleting_a_project_names_no_executor_that_serves_it(world: World) -> None:
    made = world.api("domain_admin").post("projects/", {"domain": "acme", "name": "new"})
    assert made.status_code == 201
    body = {"name": f"{SECRET}-rack", "projects": ["acme/new"]}
    assert world.api("admin").post("executors/", body).status_code == 201
    refused = world.api("domain_admin").call("DELETE", "projects/acme/new/")
    assert refused.status_code == 409
    assert refused.json()["held_by"] == ["executors"]
    assert SECRET not in refused.content.decode()


@pytest.mark.parametrize("who", ["owner", "scoped", "executor"])
def test_nobody_learns_from_a_refusal_which_executors_there_are(world: World, who: str) -> None:
    for verb in ("", "leases/"):
        answers = [world.api(who).get(f"executors/{name}/{verb}") for name in ("two", "ghost")]
        assert {answer.status_code for answer in answers} == {403}
        assert answers[0].content == answers[1].content


@pytest.mark.parametrize("who", ["owner", "admin", "executor"])
def test_only_the_executor_itself_calls_the_wire(world: World, who: str) -> None:
    body = {"incarnation": 1, "reports": []}
    answers = [world.api(who).post(f"executors/{name}/reports/", body) for name in ("two", "ghost")]
    assert {answer.status_code for answer in answers} == {404 if who == "executor" else 403}
    assert answers[0].content.replace(b"two", b"") == answers[1].content.replace(b"ghost", b"")
