"""Tokens over REST: shown once, never worth more than what made them, gone when revoked."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from sessions_app.core.errors import NotPermitted
from sessions_app.models import ApiToken, Project
from sessions_app.models.tenants import Role
from sessions_app.services.access import tokens as service
from sessions_app.services.access.tokens import token_find
from sessions_app.services.resources.tenants import project_delete
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.racing import race, uncommitted, waited

PATH = "tokens/"


@pytest.fixture
def mia(at: Project) -> User:
    return factories.user("mia", project=at, role=Role.MAINTAINER)


@pytest.fixture
def api(mia: User) -> Api:
    return Api(factories.token(mia))


def make(api: Api, **fields: Any) -> dict[str, Any]:
    response = api.post(PATH, {"name": "ci", **fields})
    assert response.status_code == 201, response.content
    made: dict[str, Any] = response.json()
    return made


def refused(response: Any, status: int, *fields: str) -> None:
    assert response.status_code == status, response.content
    assert list(response.json()["errors"]) == list(fields)


def in_a(**span: float) -> str:
    return (timezone.now() + timedelta(**span)).isoformat()


def prefixes(api: Api, query: str = "") -> set[str]:
    return {each["prefix"] for each in api.read(PATH + query)["results"]}


def test_a_token_is_shown_once_and_works(api: Api, mia: User) -> None:
    response = api.post(PATH, {"name": "ci"})
    made = response.json()
    secret = made.pop("token")
    assert made.pop("warnings") == []
    assert secret.startswith(made["prefix"])
    assert Api(secret).read("whoami/")["username"] == "mia"
    read = api.read(response["Location"])
    assert read.pop("last_used_at")
    assert made.pop("last_used_at") is None
    assert read == made
    everything = str(list(ApiToken.objects.values())) + str(list(audited_acts().values()))
    assert secret not in everything + str(api.read(PATH))
    entry = audited_acts().get()
    assert (entry.actor, entry.action, entry.object_id) == ("mia", "token.create", made["prefix"])
    assert entry.data["after"]["made_with"] == str(api.token)[:12] == made["made_with"]


def test_a_new_token_warns_if_runs_are_not_isolated(api: Api, settings: Any) -> None:
    settings.REPRISE_RUNS_AS = "ada"
    (warning,) = make(api)["warnings"]
    assert warning.startswith("Sessions run here as ada, this server's own user: ")


def test_a_revoked_token_is_worth_nothing_at_once(api: Api) -> None:
    made = make(api)
    own = Api(made["token"])
    assert own.call("DELETE", f"{PATH}{made['prefix']}/").json() == {"revoked": [made["prefix"]]}
    answer = own.get("whoami/")
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"] == 'Bearer realm="reprise"'
    assert api.get(f"{PATH}{made['prefix']}/").status_code == 404
    assert audited_acts().latest("pk").action == "token.revoke"


def test_tokens_made_with_a_token_go_with_it_if_asked(api: Api) -> None:
    first = make(api)
    second = make(Api(first["token"]))
    third = make(Api(second["token"]))
    kept = make(api)
    assert prefixes(api, f"?made_with={first['prefix']}") == {second["prefix"]}
    gone = api.call("DELETE", f"{PATH}{first['prefix']}/?made_with=true").json()["revoked"]
    assert gone == [first["prefix"], second["prefix"], third["prefix"]]
    assert prefixes(api) == {str(api.token)[:12], kept["prefix"]}


def test_a_narrowed_token_makes_narrowed_ones(api: Api, mia: User, at: Project) -> None:
    other = factories.project("other", domain="acme")
    narrowed = Api(make(api, project="acme/work")["token"])
    for asked in ({}, {"project": "acme/work"}):
        made = make(narrowed, **asked)
        assert made["project"] == "acme/work"
        assert Api(made["token"]).read("whoami/")["project"] == "acme/work"
    refused(narrowed.post(PATH, {"name": "x", "project": other.address}), 400, "project")
    refused(api.post(PATH, {"name": "x", "project": other.address}), 400, "project")
    # It sees and ends only tokens of the same project.
    assert len(prefixes(narrowed)) == 3
    wide = f"{PATH}{str(api.token)[:12]}/"
    assert narrowed.get(wide).status_code == narrowed.call("DELETE", wide).status_code == 404
    assert api.get("whoami/").status_code == 200


def test_a_token_ends_with_the_one_that_made_it_at_the_latest(mia: User) -> None:
    end = timezone.now() + timedelta(days=1)
    api = Api(factories.token(mia, expires_at=end))
    assert datetime.fromisoformat(make(api)["expires_at"]) == end
    assert make(api, expires_at=in_a(hours=1))["expires_at"] < end.isoformat()
    refused(api.post(PATH, {"name": "x", "expires_at": in_a(days=2)}), 400, "expires_at")
    grandchild = Api(make(Api(make(api)["token"]))["token"])
    ApiToken.objects.update(expires_at=timezone.now())
    assert grandchild.get("whoami/").status_code == 401
    assert ApiToken.objects.count() == 5


def test_a_token_that_may_only_read_makes_and_ends_none(mia: User) -> None:
    api = Api(factories.token(mia, read_only=True))
    refused(api.post(PATH, {"name": "x"}), 403)
    refused(api.call("DELETE", f"{PATH}{str(api.token)[:12]}/"), 403)
    assert len(prefixes(api)) == 1


def test_a_read_only_token_changes_nothing(api: Api) -> None:
    made = Api(make(api, read_only=True)["token"])
    assert made.read("projects/")["results"]
    refused(made.post("queues/", {"project": "acme/work", "name": "new"}), 403)


def test_a_token_gives_what_its_bearer_has_now(api: Api, mia: User) -> None:
    made = Api(make(api)["token"])
    mia.reprise_memberships.all().delete()
    assert made.read("projects/")["results"] == []
    mia.is_active = False
    mia.save()
    assert made.get("projects/").status_code == 401


def test_only_a_cluster_admin_makes_tokens_of_others(api: Api, mia: User, at: Project) -> None:
    root = factories.user("root", superuser=True)
    refused(api.post(PATH, {"name": "x", "user": "root"}), 403)
    refused(api.post(PATH, {"name": "x", "user": "ghost"}), 403)
    made = make(Api(factories.token(root)), user="mia")
    assert made["user"] == "mia"
    assert prefixes(api) == {str(api.token)[:12], made["prefix"]}
    refused(Api(factories.token(root)).post(PATH, {"name": "x", "user": "ghost"}), 400, "user")
    narrowed = Api(factories.token(root, project=at))
    refused(narrowed.post(PATH, {"name": "x", "user": "mia"}), 403)


def test_an_executors_token_is_no_way_to_others(mia: User) -> None:
    factories.executor("one")
    api = Api(factories.token(executor_name="one"))
    for method, path in (("GET", PATH), ("POST", PATH), ("GET", f"{PATH}{str(api.token)[:12]}/")):
        refused(api.call(method, path, {"name": "x"}), 403)
    admin = Api(factories.token(factories.user(superuser=True)))
    assert prefixes(admin, "?executor=one") == {str(api.token)[:12]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 129),
        ("name", "a\nb"),
        ("name", None),
        ("project", "acme"),
        ("project", 3),
        ("read_only", "yes"),
        ("expires_at", "2001-01-01T00:00:00Z"),
        ("expires_at", "9999-12-31T23:59:59-12:00"),
        ("expires_at", "2030-01-01"),
        ("expires_at", 4102444800),
        ("scope", "all"),
    ],
)
def test_wrong_tokens_are_refused(api: Api, field: str, value: Any) -> None:
    refused(api.post(PATH, {"name": "ci", field: value}), 400, field)
    assert ApiToken.objects.count() == 1


def test_lists_are_filtered_and_cost_the_same_for_many(
    api: Api, mia: User, at: Project, django_assert_num_queries: Any
) -> None:
    factories.token(mia, read_only=True, project=at)
    factories.token(mia, expires_at=timezone.now() - timedelta(days=1))
    factories.token(factories.user("joe"))
    api.read(PATH)
    with django_assert_num_queries(2):
        assert len(prefixes(api)) == 3
    for _ in range(10):
        factories.token(mia)
    with django_assert_num_queries(2):
        assert len(prefixes(api)) == 13
    for query, count in (
        ("?read_only=true", 1), ("?project=acme/work", 1), ("?expired=true", 1),
        ("?expired=false", 12), ("?user=joe", 0), ("?user=mia", 13), ("?executor=one", 0),
    ):  # fmt: skip
        assert len(prefixes(api, query)) == count, query
    assert [len(page) for page in api.pages(f"{PATH}?page_size=6")] == [6, 6, 1]
    assert api.get(f"{PATH}?secret=x").status_code == 400


def test_the_last_use_is_written_once_a_minute(api: Api, mia: User) -> None:
    token = ApiToken.objects.get()
    api.read("whoami/")
    token.refresh_from_db()
    used = token.last_used_at
    assert used is not None
    api.read("whoami/")
    token.refresh_from_db()
    assert token.last_used_at == used
    ApiToken.objects.update(last_used_at=used - service.USE_RESOLUTION * 2)
    api.read("whoami/")
    token.refresh_from_db()
    assert token.last_used_at is not None
    assert token.last_used_at > used


def test_a_use_that_cannot_be_written_fails_nothing(mia: User) -> None:
    secret = factories.token(mia)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL transaction_read_only = on")
        assert token_find(secret) is not None
        assert User.objects.count() == 1, "the transaction goes on"
        transaction.set_rollback(True)
    assert ApiToken.objects.get().last_used_at is None


@pytest.mark.django_db(transaction=True)
def test_nothing_is_made_with_a_token_while_it_is_revoked() -> None:
    mia = factories.user("mia")
    first = service.token_made(factories.token(mia))
    gone = waited(
        lambda: service.token_revoke_made_with(prefix=first.prefix, by="mia"),
        while_open=lambda: factories.token(mia, made_with=first),
    )
    assert len(gone) == 2
    assert not ApiToken.objects.exists()
    with pytest.raises(NotPermitted, match="was revoked"):
        factories.token(mia, made_with=first)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_made_with_a_token_whose_project_is_deleted() -> None:
    work = factories.project("work", domain="acme")
    mia = factories.user("mia")
    narrowed = service.token_made(factories.token(mia, project=work))
    with pytest.raises(NotPermitted, match="was revoked"):
        waited(
            lambda: factories.token(mia, project=work, made_with=narrowed),
            while_open=lambda: project_delete(work, by="root"),
        )
    assert not ApiToken.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_to_write_the_last_use() -> None:
    mia = factories.user("mia")
    secret = factories.token(mia)
    held = ApiToken.objects.select_for_update()
    with uncommitted(lambda: held.get(user=mia)):
        (found,) = race(lambda: token_find(secret))
    assert found.user == mia
    assert ApiToken.objects.get().last_used_at is None
