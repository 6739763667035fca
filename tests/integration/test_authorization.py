"""Who may do what, over every REST route that exists: each person, each token, each method.

The table below is the expectation; a route, a method or an action that it does not know fails.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from retry.categories import FailureCategory
from scheduler.models import Executor
from sessions_app.api.views import RestView
from sessions_app.authorization import RULES, Action
from sessions_app.models import (
    Membership,
    RequestBudget,
    RetryPolicy,
    Session,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.models.tenants import Role
from sessions_app.services.categories import category_create
from sessions_app.services.tokens import PREFIX_LENGTH
from sessions_app.services.webhooks import webhook_create, webhook_ping
from tests import factories
from tests.agent import Api

pytestmark = pytest.mark.django_db

PEOPLE = (
    "owner",  # member, and the session is theirs
    "colleague",  # another member
    "viewer",
    "maintainer",
    "domain_admin",
    "neighbour",  # maintainer of another project of the same domain
    "stranger",  # maintainer of a project of another domain
    "nobody",  # no membership at all
    "admin",  # of the cluster
    "scoped",  # the cluster admin's token for this project only
    "elsewhere",  # the cluster admin's token for another project only
    "read_only",  # the maintainer's token that may only read
    "executor",
    "other_executor",
    "expired",
    "disabled",  # the token of a user who was switched off
    "wrong",
    "anonymous",
)
REJECTED = dict.fromkeys(("expired", "disabled", "wrong", "anonymous"), 401)


def row(default: int, **others: int) -> dict[str, int]:
    return {**dict.fromkeys(PEOPLE, default), **REJECTED, **others}


UNSEEN = {"neighbour": 404, "stranger": 404, "nobody": 404, "elsewhere": 404}
NO_EXECUTORS = {"executor": 403, "other_executor": 403}
READ_SESSION = row(200, **UNSEEN, **NO_EXECUTORS)
CHANGE_SESSION = READ_SESSION | {"colleague": 403, "viewer": 403, "read_only": 403}
READ_PROJECT = READ_SESSION
WRITE_PROJECT = CHANGE_SESSION | {"owner": 403}
READ_WEBHOOK = WRITE_PROJECT | {"read_only": 200}
READ_DOMAIN = READ_SESSION | {"neighbour": 200, "scoped": 404}
WRITE_DOMAIN = row(403, admin=200, domain_admin=200) | {
    "stranger": 404,
    "nobody": 404,
    "elsewhere": 404,
    "scoped": 404,
}
HIDDEN_DOMAIN = ("stranger", "nobody", "elsewhere", "scoped")
WRITE_PROJECT_QUOTA = WRITE_PROJECT | {"maintainer": 403}
WRITE_DOMAIN_QUOTA = WRITE_DOMAIN | {"domain_admin": 403}
WRITE_CLUSTER = row(403, admin=200)
READ_CLUSTER = row(200, **NO_EXECUTORS)
READ_EXECUTORS = WRITE_CLUSTER
"""They serve many projects: who is not an admin of the cluster is told of none."""
WIRE = row(403, executor=200, other_executor=404)
CREATE = row(201, **NO_EXECUTORS, viewer=403, read_only=403) | dict.fromkeys(UNSEEN, 400)


def deleting(table: dict[str, int]) -> dict[str, int]:
    return {who: 204 if status == 200 else status for who, status in table.items()}


def making(table: dict[str, int]) -> dict[str, int]:
    return {who: 201 if status == 200 else status for who, status in table.items()}


def accepting(table: dict[str, int]) -> dict[str, int]:
    return {who: 202 if status == 200 else status for who, status in table.items()}


def refused_for_its_state(table: dict[str, int]) -> dict[str, int]:
    return {who: 409 if status == 200 else status for who, status in table.items()}


# The name of a project is a field here, and not what is looked for.
MAKE_QUEUE = CREATE | {"owner": 403, "colleague": 403}
POLICY = "retry-policies/<str:name>/"
CATEGORY = "failure-categories/<str:name>/"
EXECUTOR = "executors/<str:name>/"
QUEUE = "queues/<str:domain>/<str:project>/<str:queue>/"
SESSION = "sessions/<uuid:session_id>/"
WEBHOOK = "webhooks/<uuid:webhook_id>/"
JOB_SET_EVENTS = "job-sets/<str:name>/events/"
PROJECT = "projects/<str:domain>/<str:project>/"
DOMAIN = "domains/<str:domain>/"
MEMBERSHIP = "memberships/<int:membership_id>/"
TOKEN = "tokens/<str:prefix>/"
EXPECTED: dict[tuple[str, str], dict[str, int]] = {
    ("GET", "whoami/"): row(200),
    # What is in it for whom: test_overview.
    ("GET", "overview/"): READ_CLUSTER,
    ("GET", "sessions/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/"): CREATE,
    # Each item has an outcome of its own; see test_rest_bulk for whose is refused.
    ("POST", "sessions/bulk/"): row(200, **NO_EXECUTORS),
    # So has each session that the filter means; see test_rest_bulk_actions.
    ("POST", "sessions/bulk-cancel/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/bulk-retry/"): row(200, **NO_EXECUTORS),
    ("GET", SESSION): READ_SESSION,
    ("GET", f"{SESSION}attempts/"): READ_SESSION,
    ("GET", "job-sets/"): READ_CLUSTER,
    # In the token's own project; that of others has to be named, as in `SCOPED`.
    ("GET", JOB_SET_EVENTS): row(400, scoped=200, elsewhere=404, **NO_EXECUTORS),
    ("GET", f"{SESSION}events/"): READ_SESSION,
    ("GET", f"{SESSION}logs/"): READ_SESSION,
    ("GET", f"{SESSION}retry-decision/"): READ_SESSION,
    ("POST", f"{SESSION}cancel/"): CHANGE_SESSION,
    # It has ended.
    ("POST", f"{SESSION}preempt/"): refused_for_its_state(WRITE_PROJECT),
    ("POST", f"{SESSION}retry/"): making(CHANGE_SESSION),
    **{
        (method, f"{kind}/{PROJECT}"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_PROJECT),
            ("PUT", WRITE_PROJECT),
            ("PATCH", WRITE_PROJECT),
            ("DELETE", deleting(WRITE_PROJECT)),
        )
    },
    **{
        (method, f"{kind}/{DOMAIN}"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_DOMAIN),
            ("PUT", WRITE_DOMAIN),
            ("PATCH", WRITE_DOMAIN),
            ("DELETE", deleting(WRITE_DOMAIN)),
        )
    },
    **{
        (method, f"{kind}/cluster/"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_CLUSTER),
            ("PUT", WRITE_CLUSTER),
            ("PATCH", WRITE_CLUSTER),
            ("DELETE", deleting(WRITE_CLUSTER)),
        )
    },
    ("GET", f"quotas/{PROJECT}"): READ_PROJECT,
    ("PUT", f"quotas/{PROJECT}"): WRITE_PROJECT_QUOTA,
    ("PATCH", f"quotas/{PROJECT}"): WRITE_PROJECT_QUOTA,
    ("DELETE", f"quotas/{PROJECT}"): deleting(WRITE_PROJECT_QUOTA),
    ("GET", f"quotas/{DOMAIN}"): READ_DOMAIN,
    ("PUT", f"quotas/{DOMAIN}"): WRITE_DOMAIN_QUOTA,
    ("PATCH", f"quotas/{DOMAIN}"): WRITE_DOMAIN_QUOTA,
    ("DELETE", f"quotas/{DOMAIN}"): deleting(WRITE_DOMAIN_QUOTA),
    ("GET", "domains/"): READ_CLUSTER,
    ("POST", "domains/"): making(WRITE_CLUSTER),
    ("GET", DOMAIN): READ_DOMAIN,
    # It has projects.
    ("DELETE", DOMAIN): refused_for_its_state(WRITE_DOMAIN_QUOTA),
    ("GET", "projects/"): READ_CLUSTER,
    # The domain is a field here.
    ("POST", "projects/"): making(WRITE_DOMAIN) | dict.fromkeys(HIDDEN_DOMAIN, 400),
    ("GET", PROJECT): READ_PROJECT,
    # A session ran in it.
    ("DELETE", PROJECT): refused_for_its_state(WRITE_PROJECT_QUOTA),
    ("GET", "memberships/"): READ_CLUSTER,
    ("POST", "memberships/"): making(WRITE_PROJECT_QUOTA) | dict.fromkeys(UNSEEN, 400),
    ("GET", MEMBERSHIP): READ_PROJECT,
    ("PATCH", MEMBERSHIP): WRITE_PROJECT_QUOTA,
    ("DELETE", MEMBERSHIP): deleting(WRITE_PROJECT_QUOTA),
    ("GET", "tokens/"): READ_CLUSTER,
    ("POST", "tokens/"): making(READ_CLUSTER) | {"read_only": 403},
    # The owner's own.
    ("GET", TOKEN): row(404, owner=200, admin=200, **NO_EXECUTORS),
    ("DELETE", TOKEN): row(404, owner=200, admin=200, **NO_EXECUTORS),
    ("GET", "executors/"): READ_EXECUTORS,
    ("POST", "executors/"): making(WRITE_CLUSTER),
    ("GET", EXECUTOR): READ_EXECUTORS,
    ("PATCH", EXECUTOR): WRITE_CLUSTER,
    ("DELETE", EXECUTOR): deleting(WRITE_CLUSTER),
    ("GET", f"{EXECUTOR}leases/"): READ_EXECUTORS,
    ("POST", f"{EXECUTOR}cordon/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}uncordon/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}drain/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}token/"): making(WRITE_CLUSTER),
    **{("POST", f"{EXECUTOR}{verb}/"): WIRE for verb in ("lease", "reports", "return", "logs")},
    ("GET", "retry-policies/"): READ_CLUSTER,
    # Of the cluster's own; those of other scopes are in `SCOPED`.
    ("POST", "retry-policies/"): making(WRITE_CLUSTER),
    # Of given ends; test_simulate.py says whose history one may ask for.
    ("POST", "retry-policies/simulate/"): READ_CLUSTER,
    ("GET", POLICY): READ_CLUSTER,
    ("PUT", POLICY): WRITE_CLUSTER,
    ("DELETE", POLICY): WRITE_CLUSTER,
    ("GET", f"{POLICY}revisions/"): READ_CLUSTER,
    ("GET", "failure-categories/"): READ_CLUSTER,
    ("POST", "failure-categories/"): making(WRITE_CLUSTER),
    ("GET", CATEGORY): READ_CLUSTER,
    ("PUT", CATEGORY): WRITE_CLUSTER,
    ("PATCH", CATEGORY): WRITE_CLUSTER,
    ("DELETE", CATEGORY): deleting(WRITE_CLUSTER),
    ("GET", "queues/"): READ_CLUSTER,
    ("POST", "queues/"): MAKE_QUEUE,
    ("GET", QUEUE): READ_PROJECT,
    ("PUT", QUEUE): WRITE_PROJECT,
    ("PATCH", QUEUE): WRITE_PROJECT,
    ("DELETE", QUEUE): deleting(WRITE_PROJECT),
    ("POST", f"{QUEUE}cordon/"): WRITE_PROJECT,
    ("POST", f"{QUEUE}uncordon/"): WRITE_PROJECT,
    # What is in it for whom: test_rest_webhooks.
    ("GET", "webhooks/"): READ_CLUSTER,
    ("POST", "webhooks/"): MAKE_QUEUE,
    ("GET", WEBHOOK): READ_WEBHOOK,
    ("PATCH", WEBHOOK): WRITE_PROJECT,
    ("DELETE", WEBHOOK): deleting(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}secret/"): making(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}pause/"): WRITE_PROJECT,
    ("POST", f"{WEBHOOK}resume/"): WRITE_PROJECT,
    ("POST", f"{WEBHOOK}ping/"): accepting(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}redeliver/"): accepting(WRITE_PROJECT),
    ("GET", f"{WEBHOOK}deliveries/"): READ_WEBHOOK,
    ("GET", f"{WEBHOOK}deliveries/<int:number>/"): READ_WEBHOOK,
    ("GET", "schema/"): row(200),
    ("GET", "docs/"): row(200),
}
POLICY_WORLD = {"neighbour": 200, "scoped": 200, "elsewhere": 200}
"""Who works in a domain reads its policies, which apply there, also with a narrowed token."""
SCOPED: dict[tuple[str, str, str], dict[str, int]] = {
    ("GET", JOB_SET_EVENTS, "project=acme/work"): READ_SESSION,
    ("GET", POLICY, "project=acme/work"): READ_PROJECT,
    ("PUT", POLICY, "project=acme/work"): WRITE_PROJECT,
    ("DELETE", POLICY, "project=acme/work"): WRITE_PROJECT,
    ("GET", f"{POLICY}revisions/", "project=acme/work"): READ_PROJECT,
    ("GET", POLICY, "domain=acme"): READ_DOMAIN | POLICY_WORLD,
    ("PUT", POLICY, "domain=acme"): WRITE_DOMAIN,
    ("DELETE", POLICY, "domain=acme"): WRITE_DOMAIN,
    ("GET", f"{POLICY}revisions/", "domain=acme"): READ_DOMAIN | POLICY_WORLD,
}


def document(name: str, **spec: Any) -> dict[str, Any]:
    """A policy."""
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": name}}
    return {**head, "spec": spec}


MATCHERS = [{"onConditions": ["OOMKilled"]}]
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "sessions/"): {"project": "acme/work", "command": ["true"]},
    ("POST", "sessions/bulk/"): {"sessions": [{"project": "acme/work", "command": ["true"]}]},
    ("POST", "sessions/bulk-cancel/"): {"filter": {}},
    ("POST", "sessions/bulk-retry/"): {"filter": {}},
    ("POST", "retry-policies/"): document("new"),
    ("POST", "retry-policies/simulate/"): {"chains": [{"terminations": [{"exit_code": 1}]}]},
    ("PUT", POLICY): document("one", retryLimit=7),
    ("POST", "failure-categories/"): {"name": "new", "matchers": MATCHERS},
    ("PUT", CATEGORY): {"matchers": MATCHERS, "position": 3},
    ("PATCH", CATEGORY): {"position": 3},
    ("POST", "queues/"): {"project": "acme/work", "name": "new"},
    ("PUT", QUEUE): {"priority_factor": 2.0},
    ("PATCH", QUEUE): {"priority_factor": 2.0},
    **{
        (method, f"quotas/{scope}"): {"sessions": 3}
        for method in ("PUT", "PATCH")
        for scope in (PROJECT, DOMAIN)
    },
    ("POST", "tokens/"): {"name": "new"},
    ("POST", "domains/"): {"name": "new"},
    ("POST", "projects/"): {"domain": "acme", "name": "new"},
    ("POST", "memberships/"): {"user": "nobody", "role": "member", "project": "acme/work"},
    ("PATCH", MEMBERSHIP): {"role": "maintainer"},
    ("POST", f"{QUEUE}cordon/"): {"reason": "because"},
    ("POST", "webhooks/"): {"project": "acme/work", "url": "https://example.com/"},
    ("PATCH", WEBHOOK): {"description": "because"},
    ("POST", f"{WEBHOOK}pause/"): {"reason": "because"},
    ("POST", f"{WEBHOOK}redeliver/"): {"since": "2030-01-31T12:00:00Z"},
    ("POST", "executors/"): {"name": "new"},
    ("PATCH", EXECUTOR): {"unconfirmed_after": 60},
    ("POST", f"{EXECUTOR}cordon/"): {"reason": "because"},
    ("POST", f"{EXECUTOR}lease/"): {"incarnation": 1},
    ("POST", f"{EXECUTOR}reports/"): {"incarnation": 1, "reports": []},
    ("POST", f"{EXECUTOR}return/"): {"incarnation": 1, "returns": []},
    ("POST", f"{EXECUTOR}logs/"): {"incarnation": 1, "chunks": []},
}
# Third-party views, which have a permission of their own and change nothing.
DOCUMENTATION = {"schema/", "docs/"}


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


@dataclass
class World:
    session: Session
    webhook: WebhookEndpoint
    delivery: WebhookDelivery
    tokens: dict[str, str | None]
    membership: int
    """Of the colleague."""

    def api(self, who: str) -> Api:
        return Api(self.tokens[who])

    def path(self, route: str, **names: Any) -> str:
        known = {
            "<uuid:session_id>": self.session.pk,
            "<uuid:webhook_id>": self.webhook.pk,
            "<int:number>": self.delivery.pk,
            "<str:domain>": "acme",
            "<str:project>": "work",
            "<str:name>": "one",
            "<str:queue>": "one",
            "<int:membership_id>": self.membership,
            "<str:prefix>": str(self.tokens["owner"])[:PREFIX_LENGTH],
        } | {f"<{kind}>": value for kind, value in names.items()}
        for placeholder, value in known.items():
            route = route.replace(placeholder, str(value))
        return route


@pytest.fixture
def world() -> World:
    work = factories.project("work", domain="acme")
    other = factories.project("other", domain="acme")
    far = factories.project("far", domain="globex")
    people: dict[str, User] = {
        "owner": factories.user("owner", project=work),
        "colleague": factories.user("colleague", project=work),
        "viewer": factories.user("viewer", project=work, role=Role.VIEWER),
        "maintainer": factories.user("maintainer", project=work, role=Role.MAINTAINER),
        "domain_admin": factories.user("domain_admin", domain=work.domain, role=Role.DOMAIN_ADMIN),
        "neighbour": factories.user("neighbour", project=other, role=Role.MAINTAINER),
        "stranger": factories.user("stranger", project=far, role=Role.MAINTAINER),
        "nobody": factories.user("nobody"),
        "admin": factories.user("admin", superuser=True),
    }
    tokens: dict[str, str | None] = {
        name: factories.token(person) for name, person in people.items()
    }
    admin, maintainer = people["admin"], people["maintainer"]
    yesterday = timezone.now() - timedelta(days=1)
    gone = factories.user("gone", superuser=True)
    gone.is_active = False
    gone.save()
    Executor.objects.create(name="one")
    Executor.objects.create(name="two")
    tokens |= {
        "scoped": factories.token(admin, project=work),
        "elsewhere": factories.token(admin, project=other),
        "read_only": factories.token(maintainer, read_only=True),
        "executor": factories.token(executor_name="one"),
        "other_executor": factories.token(executor_name="two"),
        "expired": factories.token(admin, expires_at=yesterday),
        "disabled": factories.token(gone),
        "wrong": "rpr_" + "x" * 43,
        "anonymous": None,
    }
    waits = factories.policy(retry_delay=3600)
    session = factories.submit(work, owner=people["owner"], retry_policy=waits, job_set="one")
    factories.queue(work, "one")
    factories.named_policy("one")
    category = FailureCategory.model_validate({"name": "one", "matchers": MATCHERS})
    category_create(category, position=None, by="root")
    # Failed, with a retry that waits: it can be cancelled and retried.
    factories.settle(session)
    colleague = Membership.objects.get(user=people["colleague"])
    webhook = webhook_create(
        project=work, url="https://example.com/", event_types=[], description="", by="root"
    )
    return World(session, webhook, webhook_ping(webhook), tokens, colleague.pk)


TABLES: list[type[Model]] = [User]
for label in ("sessions_app", "scheduler"):
    TABLES += apps.get_app_config(label).get_models()


def snapshot() -> dict[str, list[Any]]:
    """Every row of every table of ours; the last use of tokens, and how much of it, apart."""
    return {
        model.__name__: [
            {name: value for name, value in values.items() if name != "last_used_at"}
            for values in model._default_manager.order_by("pk").values()
        ]
        for model in TABLES
        if model is not RequestBudget
    }


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
    # The admin is no route of the API; test_admin.py says who may enter it.
    assert set(RULES) == set(Action) == asked | {Action.ADMIN_USE}


@pytest.mark.parametrize(("method", "route"), EXPECTED, ids=[" ".join(case) for case in EXPECTED])
def test_who_may_do_what(world: World, method: str, route: str) -> None:
    assert asked(world, method, route, "") == EXPECTED[method, route]


@pytest.mark.parametrize(
    ("method", "route", "scope"), SCOPED, ids=[" ".join(case) for case in SCOPED]
)
def test_who_may_do_what_in_a_scope(world: World, method: str, route: str, scope: str) -> None:
    RetryPolicy.objects.all().delete()
    at = Session.objects.get().project
    place = {"project": at} if scope.startswith("project") else {"domain": at.domain}
    factories.named_policy("one", **place)
    assert asked(world, method, route, f"?{scope}") == SCOPED[method, route, scope]


def asked(world: World, method: str, route: str, query: str) -> dict[str, int]:
    """The status for everybody; what is refused changes nothing."""
    before = snapshot()
    body = BODIES.get((method, route), {} if method in {"PUT", "PATCH"} else None)
    statuses: dict[str, int] = {}
    for who in PEOPLE:
        with undone():
            response = world.api(who).call(method, world.path(route) + query, body)
            statuses[who] = response.status_code
            if response.status_code >= 400:
                assert_problem(response)
            if response.status_code >= 400 and method != "GET":
                assert snapshot() == before, who
    assert snapshot() == before
    return statuses


@contextmanager
def undone() -> Iterator[None]:
    """What happens within is rolled back, so that the next one meets the same world."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def assert_problem(response: Any) -> None:
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert set(problem) >= {"type", "title", "status", "detail", "errors"}
    assert problem["status"] == response.status_code
    challenge = 'Bearer realm="reprise"' if response.status_code == 401 else None
    assert response.get("WWW-Authenticate") == challenge


NAMED = [case for case in EXPECTED if "<" in case[1] and "<str:name>" not in case[1]]


@pytest.mark.parametrize(("method", "route"), NAMED, ids=[" ".join(case) for case in NAMED])
def test_what_one_may_not_see_looks_as_if_it_did_not_exist(
    world: World, method: str, route: str
) -> None:
    names = {
        "uuid:session_id": UUID(int=7),
        "uuid:webhook_id": UUID(int=8),
        "str:project": "ghost",
        "str:domain": "void",
        "str:queue": "one",
        "int:membership_id": NOBODYS,
        "str:prefix": NO_PREFIX,
    }
    for who, status in EXPECTED[method, route].items():
        missing = world.api(who).call(method, world.path(route, **names))
        unknown = 403 if who in NO_EXECUTORS else REJECTED.get(who, 404)
        assert missing.status_code == unknown, who
        if status == 404:
            hidden = world.api(who).call(method, world.path(route))
            assert neutral(hidden, world, {}) == neutral(missing, world, names), who


@pytest.mark.parametrize("route", [path for method, path in EXPECTED if method == "GET"])
def test_head_is_a_get_without_its_body(world: World, route: str) -> None:
    for who in PEOPLE:
        response = world.api(who).call("HEAD", world.path(route))
        assert response.status_code == EXPECTED["GET", route][who], who
        assert b"".join(response) == b""


NOBODYS = 10**15
"""No key of a row."""
NO_PREFIX = "rpr_........"


def neutral(response: Any, world: World, names: dict[str, Any]) -> Any:
    """The whole answer with the names that were asked for taken out."""
    text = json.dumps(response.json())
    asked = {"acme": "D", "work": "P", str(world.session.pk): "S"}
    asked |= {"void": "D", "ghost": "P", str(UUID(int=7)): "S"} if names else {}
    asked |= {f"no membership {NOBODYS if names else world.membership}": "no membership M"}
    asked |= {NO_PREFIX if names else str(world.tokens["owner"])[:PREFIX_LENGTH]: "T"}
    asked |= {str(world.webhook.pk): "W", str(UUID(int=8)): "W"}
    for name, neutral_name in asked.items():
        text = text.replace(name, neutral_name)
    headers = {key: value for key, value in response.items() if key != "Content-Length"}
    return response.status_code, text, headers


@pytest.mark.parametrize("who", ["neighbour", "stranger", "nobody", "elsewhere"])
def test_a_hidden_project_cannot_be_created_in(world: World, who: str) -> None:
    api = world.api(who)
    hidden = api.post("sessions/", {"project": "acme/work", "command": ["true"]})
    missing = api.post("sessions/", {"project": "void/ghost", "command": ["true"]})
    assert hidden.status_code == missing.status_code == 400
    assert hidden.content.replace(b"acme/work", b"") == missing.content.replace(b"void/ghost", b"")
    assert list(hidden.json()["errors"]) == ["project"]


@pytest.mark.parametrize("who", ["neighbour", "stranger", "nobody", "elsewhere"])
@pytest.mark.parametrize(
    "query", ["", "project=acme/work", "search={id}", "root={id}", "owner=owner", "status=error"]
)
def test_lists_show_only_what_one_may_see(world: World, who: str, query: str) -> None:
    path = f"sessions/?{query.format(id=world.session.pk)}"
    assert world.api(who).read(path)["results"] == []
    assert len(world.api("viewer").read(path)["results"]) == 1


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic abc", "Token abc", "Bearer a b", "Bearer \u00fc"]
)
def test_a_malformed_header_is_no_token(world: World, header: str) -> None:
    response = Api().get("whoami/", headers={"Authorization": header})
    assert response.status_code == 401


def test_a_member_may_cancel_a_session_without_owner_only_as_maintainer(world: World) -> None:
    Session.objects.update(owner=None)
    path = world.path(f"{SESSION}cancel/")
    assert world.api("owner").post(path).status_code == 403
    assert world.api("maintainer").post(path).status_code == 200


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
