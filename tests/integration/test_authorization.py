"""Tests of permissions on every REST route that exists: each person, each token, each method.

`authorization_table` is what is expected; a route, a method or an action that it does not know
fails.
"""

import json
from typing import Any
from uuid import UUID

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from interfaces.http.views import RestView
from sessions_app.authorization import RULES, Action
from sessions_app.models import RetryPolicy, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Api
from tests.integration.authorization_table import (
    BODIES,
    EXPECTED,
    NO_EXECUTORS,
    SCOPED,
    SESSION,
)
from tests.people import (
    EXECUTORS,
    PEOPLE,
    REJECTED,
    SECRET,
    UNSEEN,
    World,
    database_digest,
    undone,
)

# Third-party views, which have a permission of their own and change nothing.
DOCUMENTATION = {"schema/", "docs/"}
SHOWN_NOTHING = {*UNSEEN, *REJECTED, *EXECUTORS}


def routes() -> dict[str, Any]:
    """Every path under the API with its view class."""
    found: dict[str, Any] = {}

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> None:
        for pattern in patterns:
            path = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, path)
            elif path.startswith("api/v2/"):
                found[path.removeprefix("api/v2/")] = vars(pattern.callback)["view_class"]

    walk(get_resolver().url_patterns, "")
    return found


def methods(view: Any) -> set[str]:
    return {name.upper() for name in view.http_method_names if hasattr(view, name)} - {"OPTIONS"}


def test_every_route_and_method_is_in_the_table() -> None:
    existing = {(method, path) for path, view in routes().items() for method in methods(view)}
    assert existing == set(EXPECTED)


def test_every_view_declares_the_action_of_each_method() -> None:
    for path, view in routes().items():
        if path not in DOCUMENTATION:
            assert issubclass(view, RestView), path
            assert set(view.actions) == methods(view), path
            assert set(view.actions.values()) <= set(RULES), path


def test_every_action_has_a_rule_and_a_route() -> None:
    asked = {
        action
        for path, view in routes().items()
        if path not in DOCUMENTATION
        for action in view.actions.values()
    }
    # The admin is no route of the API; test_admin.py says who may enter it. What an answer holds
    # for whom: test_environ_of_viewers.py.
    elsewhere = {Action.ADMIN_USE, Action.DOCUMENTATION, Action.SESSION_VALUES}
    assert set(RULES) == set(Action) == asked | elsewhere


@pytest.mark.parametrize(("method", "route"), EXPECTED, ids=[" ".join(case) for case in EXPECTED])
def test_permissions_are_as_in_the_table(world: World, method: str, route: str) -> None:
    check(world, method, route, "", EXPECTED[method, route])


@pytest.mark.parametrize(
    ("method", "route", "scope"), SCOPED, ids=[" ".join(case) for case in SCOPED]
)
def test_permissions_in_a_scope_are_as_in_the_table(
    world: World, method: str, route: str, scope: str
) -> None:
    RetryPolicy.objects.filter(name="one").delete()
    place = (
        {"project": world.project}
        if scope.startswith("project")
        else {"domain": world.project.domain}
    )
    factories.named_policy("one", **place)
    expected = SCOPED[method, route, scope]
    check(world, method, route, f"?{scope}", expected, database_digest())
    ghost = f"?{scope.replace('acme', 'void').replace('work', 'ghost')}"
    for who in (who for who, status in expected.items() if status == 404):
        hidden, missing = (call(world, who, method, route, query) for query in (f"?{scope}", ghost))
        assert neutral(hidden, world, {}) == neutral(missing, world, GHOSTS), who


def check(
    world: World,
    method: str,
    route: str,
    query: str,
    expected: dict[str, int],
    before: dict[str, Any] | None = None,
) -> None:
    """Everybody gets the status that is expected; refusals and reading change and tell nothing.

    One digest is for all of them: whoever may change something has it undone.
    """
    statuses: dict[str, int] = {}
    for who in _one_of_each(expected) if route in DOCUMENTATION else PEOPLE:
        if method == "GET" or expected[who] >= 400:
            response = call(world, who, method, route, query)
        else:
            with undone():
                response = call(world, who, method, route, query)
        statuses[who] = response.status_code
        if response.status_code >= 400:
            assert_problem(response)
        if who in SHOWN_NOTHING and not (who == "executor" and expected[who] == 200):
            assert SECRET not in whole_text(response), who
    assert statuses.items() <= expected.items()
    assert database_digest() == (before or world.digest)


def _one_of_each(expected: dict[str, int]) -> list[str]:
    """Somebody for each answer that there is."""
    return list({status: who for who, status in expected.items()}.values())


def call(world: World, who: str, method: str, route: str, query: str = "", **names: Any) -> Any:
    body = BODIES.get((method, route), {} if method in {"PUT", "PATCH"} else None)
    return world.api(who).call(method, world.path(route, **names) + query, body)


def whole_text(response: Any) -> str:
    """All of an answer: what it is, its headers, its body."""
    return f"{response.status_code} {response.headers} {response.getvalue().decode()}"


def assert_problem(response: Any) -> None:
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert set(problem) >= {"type", "title", "status", "detail", "errors"}
    assert problem["status"] == response.status_code
    challenge = 'Bearer realm="reprise"' if response.status_code == 401 else None
    assert response.get("WWW-Authenticate") == challenge


NAMED = [
    case
    for case in EXPECTED
    if "<" in case[1] and "<str:name>" not in case[1] and "<str:key>" not in case[1]
]
NOBODYS = 10**15
"""No key of a row."""
GHOSTS = {
    "uuid:session_id": UUID(int=7),
    "uuid:webhook_id": UUID(int=8),
    "uuid:breaker_id": UUID(int=10),
    "uuid:schedule_id": UUID(int=9),
    "str:project": "ghost",
    "str:domain": "void",
    "str:queue": "one",
    "int:membership_id": NOBODYS,
    "str:prefix": "rpr_........",
}
"""What does not exist at all."""


@pytest.mark.parametrize(("method", "route"), NAMED, ids=[" ".join(case) for case in NAMED])
def test_hidden_records_look_as_if_they_did_not_exist(
    world: World, method: str, route: str
) -> None:
    for who, status in EXPECTED[method, route].items():
        missing = call(world, who, method, route, **GHOSTS)  # type: ignore[arg-type]
        unknown = 403 if who in NO_EXECUTORS else REJECTED.get(who, 404)
        assert missing.status_code == unknown, who
        if status == 404:
            hidden = call(world, who, method, route)
            assert neutral(hidden, world, {}) == neutral(missing, world, GHOSTS), who


def neutral(response: Any, world: World, names: dict[str, Any]) -> Any:
    """The whole answer with the names that were asked for taken out."""
    text = json.dumps(response.json())
    asked = {"acme": "D", "work": "P", str(world.session.pk): "S"}
    asked |= {"void": "D", "ghost": "P", str(UUID(int=7)): "S"} if names else {}
    asked |= {f"no membership {NOBODYS if names else world.membership}": "no membership M"}
    asked |= {str(names["str:prefix"]) if names else world.prefix("owner"): "T"}
    asked |= {str(world.webhook.pk): "W", str(UUID(int=8)): "W"}
    asked |= {str(world.breaker.pk): "B", str(UUID(int=10)): "B"}
    asked |= {str(world.schedule.pk): "C", str(UUID(int=9)): "C"}
    for name, neutral_name in asked.items():
        text = text.replace(name, neutral_name)
    own = {"Content-Length", "X-Request-ID"}
    headers = {key: value for key, value in response.items() if key not in own}
    return response.status_code, text, headers


@pytest.mark.parametrize("route", [path for method, path in EXPECTED if method == "GET"])
def test_head_is_a_get_without_its_body(world: World, route: str) -> None:
    # HEAD is the same method of the same view.
    expected = EXPECTED["GET", route]
    for who in _one_of_each(expected):
        response = world.api(who).call("HEAD", world.path(route))
        assert response.status_code == expected[who], who
        assert b"".join(response) == b""


def test_options_are_no_way_around(world: World) -> None:
    for route in routes():
        for who, status in {**REJECTED, "executor": 405, "admin": 405}.items():
            response = world.api(who).call("OPTIONS", world.path(route))
            assert response.status_code in {status, 403}, (route, who)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic abc", "Token abc", "Bearer a b", "Bearer \u00fc"]
)
def test_a_malformed_header_is_no_token(header: str) -> None:
    response = Api().get("whoami/", headers={"Authorization": header})
    assert response.status_code == 401


def test_a_member_may_cancel_a_session_without_owner_only_as_maintainer(world: World) -> None:
    Session.objects.update(owner=None)
    path = world.path(f"{SESSION}cancel/")
    assert world.api("owner").post(path).status_code == 403
    assert world.api("maintainer").post(path).status_code == 200


def test_a_domain_admin_may_leave_and_is_a_stranger_at_once(world: World) -> None:
    api = world.api("domain_admin")
    (own,) = api.read("memberships/?user=domain_admin")["results"]
    assert own["role"] == Role.DOMAIN_ADMIN
    assert api.call("DELETE", f"memberships/{own['id']}/").status_code == 204
    assert api.get("domains/acme/").status_code == 404
    assert world.api("admin").get("domains/acme/").status_code == 200
