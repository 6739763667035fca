"""Every mutation beside the call of REST that does the same: same rows, same refusals."""

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from retry.policies.categories import FailureCategory
from scheduler.models import Executor, Node
from sessions_app.models import (
    AuditEntry,
    Membership,
    Project,
    RequestBudget,
    RetryDefaults,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.services.access.tokens import PREFIX_LENGTH
from sessions_app.services.breakers.acts import breakers_mute
from sessions_app.services.resources.categories import category_create
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.services.schedules.saving import schedule_pause
from sessions_app.webhooks.endpoints import webhook_create, webhook_pause
from tests import factories
from tests.graphs import Graph
from tests.mutation_table import NO_MUTATION, PAIRS, Pair, route_of
from tests.mutations import change
from tests.people import undone

PEOPLE = ("admin", "read_only", "viewer", "stranger")
CODES = {"INVALID": 400, "NOT_PERMITTED": 403, "NOT_FOUND": 404, "CONFLICT": 409, "OUTDATED": 412}


@dataclass
class World:
    tokens: dict[str, str]
    ids: dict[str, str]

    def filled(self, value: Any) -> Any:
        """A value with the ids of this world."""
        if isinstance(value, str):
            return re.sub(r"{(\w+)}", lambda name: self.ids[name[1]], value)
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        return value


@pytest.fixture
def world(at: Project) -> World:
    admin = factories.user("admin", superuser=True)
    viewer = factories.user("viewer", project=at, role=Role.VIEWER)
    far = factories.project("far", domain="globex")
    people = {
        "admin": factories.token(admin),
        "read_only": factories.token(admin, read_only=True),
        "viewer": factories.token(viewer),
        "stranger": factories.token(factories.user("s", project=far, role=Role.MAINTAINER)),
    }
    factories.user("nobody")
    factories.project("unused")
    factories.domain("empty")
    factories.queue(at, "one")
    factories.queue(at, "closed", cordoned=True, cordon_reason="because")
    factories.named_policy("named", project=at)
    factories.executor("one")
    Executor.objects.create(name="closed", cordoned=True, cordon_reason="because")
    one = Executor.objects.get(name="one")
    Node.objects.create(executor=one, name="n1", address="one/n1")
    out = {"quarantined_at": timezone.now(), "quarantine_reason": "because"}
    Node.objects.create(executor=one, name="n2", address="one/n2", **out)
    category = {"name": "cuda", "matchers": [{"onConditions": ["Evicted"]}]}
    category_create(FailureCategory.model_validate(category), position=None, by="root")
    priority_class_create("one", 7, {}, by="root")
    factories.quotas(at, sessions=9)
    RetryDefaults.objects.create(project=at, policy={"max_retries": 1})
    return World(people, _ids(at, people["viewer"], Membership.objects.get(user=viewer)))


def _ids(at: Project, token: str, membership: Membership) -> dict[str, str]:
    hooks = [
        webhook_create(
            project=at, url=f"https://example.com/{n}", event_types=[], description="", by="root"
        )
        for n in range(2)
    ]
    webhook_pause(hooks[1], reason="because", by="root")
    sessions = [factories.submit(at, job_set="night") for _ in range(3)]
    factories.start(sessions[1])
    Session.objects.filter(pk=sessions[1].pk).update(accepted_at=models.F("started_at"))
    failed = factories.settle(factories.start(sessions[2]))
    factories.failure(failed, key="one")
    parking = factories.policy(on_exhausted="park", max_chain_duration=0.0001)
    sessions.append(factories.submit(at, retry_policy=parking))
    factories.settle(factories.start(sessions[3]))
    names = ("waiting", "running", "failed", "parked")
    found = {name: str(session.pk) for name, session in zip(names, sessions, strict=True)}
    owner = factories.user("planner", project=at)
    schedules = [factories.schedule(at, owner, name=name) for name in ("one", "two")]
    schedule_pause(schedules[1], reason="because", by="root")
    muted = factories.breaker(at, signature="ba9876543210")
    breakers_mute([muted.pk], muted=True, by="root")
    return found | {
        "breaker": str(factories.breaker(at).pk),
        "muted": str(muted.pk),
        "schedule": str(schedules[0].pk),
        "resting": str(schedules[1].pk),
        "webhook": str(hooks[0].pk),
        "paused": str(hooks[1].pk),
        "membership": str(membership.pk),
        "token": token[:PREFIX_LENGTH],
    }


KINDS: list[Any] = [User, *apps.get_app_config("sessions_app").get_models()]
KINDS += apps.get_app_config("scheduler").get_models()
VOLATILE = (
    *(models.DateTimeField, models.UUIDField, models.AutoField, models.ForeignKey),
    *(models.GeneratedField, models.BinaryField),
)
SECRETS = {
    "prefix",
    "digest",
    "request_digest",
    "secret",
    "previous_secret",
    "object_id",
    "fencing_token",
    "xid",
}


def facts() -> dict[str, Any]:
    """All rows of all tables of ours, without times, secrets and the ids of what is new.

    The door of an entry of the audit log is left out, too: see `doors_after`.
    """
    found: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(ALL_ROWS)  # a statement for each table would be most of these tests
        for table, row in cursor.fetchall():
            found.setdefault(table, []).append(_plain(row))
    return {table: sorted(rows) for table, rows in found.items()}


def _rows(kind: Any) -> str:
    left_out = ",".join(
        field.column
        for field in kind._meta.concrete_fields
        if isinstance(field, VOLATILE) or field.name in SECRETS | {"door"}
    )
    table = kind._meta.db_table
    return f"SELECT '{table}', (to_jsonb(t) - '{{{left_out}}}'::text[])::text FROM {table} t"


ALL_ROWS = " UNION ALL ".join(
    _rows(kind) for kind in KINDS if kind._meta.managed and kind is not RequestBudget
)
_NEW = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b|\d{4}-\d\d-\d\dT[\d:.+]+"
    r"|rpr_[\w-]+|whsec_[\w+/=]+"
)


def _plain(text: str) -> str:
    return _NEW.sub("~", text)


def last_act() -> int:
    """The newest entry of the audit log."""
    return int(AuditEntry.objects.aggregate(last=models.Max("pk"))["last"])


def doors_after(act: int) -> set[tuple[str, bool]]:
    """The doors of what was done since, and whether their tokens and requests are known."""
    entries = AuditEntry.objects.filter(pk__gt=act).values_list("door", "via")
    return {(door, bool(via.get("token") and via.get("request_id"))) for door, via in entries}


def by_rest(world: World, who: str, pair: Pair) -> tuple[int, dict[str, Any]]:
    """The status of the call of REST, and what is there then."""
    before = last_act()
    with undone():
        api = Graph(world.tokens[who])
        response = api.call(pair.method, world.filled(pair.path), world.filled(pair.body))
        assert doors_after(before) <= {("rest", True)}
        return response.status_code, facts()


def by_graphql(world: World, who: str, pair: Pair) -> tuple[int, dict[str, Any]]:
    """As `by_rest`, of the mutation."""
    before = last_act()
    with undone():
        payload = change(Graph(world.tokens[who]), pair.mutation, **world.filled(pair.input))
        codes = {error["code"] for error in payload["errors"]}
        assert doors_after(before) <= {("graphql", True)}
        return CODES[codes.pop()] if codes else 200, facts()


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.mutation for pair in PAIRS])
def test_as_rest_does(world: World, pair: Pair) -> None:
    before = facts()
    for who in PEOPLE:
        status, wanted = by_rest(world, who, pair)
        done, found = by_graphql(world, who, pair)
        assert done == (200 if status < 300 else status), who
        assert found == wanted, who
        if who == "admin":
            assert done == 200
            # It is sent before a time at which nothing happened yet.
            assert (found != before) is (pair.mutation != "redeliverWebhook")
        elif who != "viewer" or pair.mutation not in {"createToken", "revokeToken"}:
            assert found == before, who


def test_each_writing_call_of_rest_has_a_mutation() -> None:
    resolve = get_resolver().resolve
    mirrored = {
        f"{pair.method} {route_of(_route(resolve, pair))}".replace("api/v2/", "") for pair in PAIRS
    }
    assert mirrored & set(NO_MUTATION) == set()
    assert mirrored | set(NO_MUTATION) == {
        call for call in _writing() if not re.search(r"/(domains/<>|cluster)/$", call)
    }


def _route(resolve: Any, pair: Pair) -> str:
    path = re.sub(r"{(membership|token)}", "1", pair.path.partition("?")[0])
    return str(resolve(f"/api/v2/{re.sub(r'{.*?}', str(UUID(int=0)), path)}").route)


def _writing() -> set[str]:
    found = set()

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> None:
        for pattern in patterns:
            path = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, path)
            elif path.startswith("api/v2/"):
                view = vars(pattern.callback)["view_class"]
                names = {name for name in view.http_method_names if hasattr(view, name)}
                for name in names & {"post", "put", "patch", "delete"}:
                    found.add(f"{name.upper()} {route_of(path.removeprefix('api/v2/'))}")

    walk(get_resolver().url_patterns, "")
    return found


def test_each_mutation_has_a_call_of_rest() -> None:
    from reprise.graphql.schema import root_fields

    assert sorted(pair.mutation for pair in PAIRS) == root_fields()["Mutation"]


def test_several_run_in_order_each_by_itself(world: World) -> None:
    graph = Graph(world.tokens["admin"])
    errors = graph.ask(
        """mutation { made: createDomain(input: {name: "a"}) { domain { name } errors { code } }
        again: createDomain(input: {name: "a"}) { domain { name } errors { code field } }
        gone: deleteDomain(input: {name: "a"}) { errors { code } }
        anew: createDomain(input: {name: "a"}) { domain { name } errors { code } } }"""
    )
    assert errors["made"] == errors["anew"] == {"domain": {"name": "a"}, "errors": []}
    assert errors["again"]["domain"] is None
    assert errors["again"]["errors"][0]["code"] == "CONFLICT"
    assert errors["gone"] == {"errors": []}
    verbs = AuditEntry.objects.filter(object_type="domain", object_id="a").order_by("pk")
    assert [entry.action for entry in verbs] == ["domain.create", "domain.delete", "domain.create"]


@pytest.mark.parametrize("token", ["executor", None])
def test_callers_without_a_user_change_nothing(at: Project, token: str | None) -> None:
    factories.executor("one")
    secret = factories.token(executor_name="one") if token else None
    response = Graph(secret).send(
        'mutation { createSession(input: {project: "acme/work", image: "x"}) { errors { code } } }'
    )
    assert response.status_code == (403 if token else 401)
    assert not Session.objects.filter(project=at).exists()
