"""Limits of calls a minute: over several processes, cheap below them, a clear 429 above."""

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import ApiToken, RequestBudget
from sessions_app.services.access import throttle
from sessions_app.services.access.throttle import call_permit
from sessions_app.services.access.tokens import token_revoke
from tests import factories
from tests.agent import Agent, Api
from tests.racing import race

WHO = "whoami/"


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    throttle._kept.clear()
    yield
    throttle._kept.clear()


@pytest.fixture
def limits(settings: Any) -> Any:
    def limit(**limits: int) -> None:
        names = {f"{name}_requests_per_minute": value for name, value in limits.items()}
        settings.REPRISE = {**settings.REPRISE, **names}

    return limit


def statuses(api: Api, count: int, path: str = WHO) -> list[int]:
    return [api.get(path).status_code for _ in range(count)]


def test_frequent_callers_are_told_when_to_come_again(limits: Any) -> None:
    limits(token=2)
    api = Api(factories.token(factories.user()))
    assert statuses(api, 3) == [200, 200, 429]
    answer = api.get(WHO)
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 429
    assert 1 <= int(answer["Retry-After"]) <= 31
    # Half a minute gives one call, a long time no more than the limit.
    for seconds, expected in ((31, [200, 429]), (86_400, [200, 200, 429])):
        throttle._kept.clear()
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE sessions_app_requestbudget"
                " SET refilled_at = refilled_at - %s * interval '1 second'",
                [seconds],
            )
        assert statuses(api, len(expected)) == expected


def test_each_token_has_a_limit_of_its_own(limits: Any) -> None:
    limits(token=1)
    user = factories.user()
    first, second = Api(factories.token(user)), Api(factories.token(user))
    assert statuses(first, 2) == [200, 429]
    assert statuses(second, 2) == [200, 429]


def test_a_limit_is_not_multiplied_by_making_tokens(limits: Any) -> None:
    limits(token=0)
    root = factories.user("root", superuser=True)
    ann = factories.user("ann")
    mother = Api(factories.token(root))

    def made(maker: Api, **fields: Any) -> Api:
        return Api(maker.post("tokens/", {"name": "more", **fields}).json()["token"])

    child = made(mother)
    family = [mother, child, made(child)]
    elsewhere = made(child, user="ann")
    limits(token=3)
    for each in family:
        throttle._kept.clear()  # each call comes to another process
        assert statuses(each, 1) == [200]
    for each in family:
        throttle._kept.clear()
        assert statuses(each, 1) == [429]
    assert statuses(elsewhere, 4) == [200, 200, 200, 429], "it is of somebody else"
    # What is spent stays so when those go that spent it, and is forgotten with the last one.
    family_tokens = list(ApiToken.objects.filter(user=root).order_by("pk"))
    for token in family_tokens[:-1]:
        token_revoke(prefix=token.prefix, by="root")
    throttle._kept.clear()
    assert statuses(family[-1], 1) == [429]
    token_revoke(prefix=family_tokens[-1].prefix, by="root")
    assert RequestBudget.objects.get().pk == ApiToken.objects.get(user=ann).pk


def test_a_refused_call_does_nothing(limits: Any) -> None:
    limits(token=1)
    api = Api(factories.token(factories.user(superuser=True)))
    assert api.post("domains/", {"name": "one"}).status_code == 201
    assert api.post("domains/", {"name": "two"}).status_code == 429
    limits(token=0)
    assert [each["name"] for each in api.read("domains/")["results"]] == ["one"]


def test_without_a_valid_token_the_address_counts(limits: Any) -> None:
    limits(anonymous=2)
    assert statuses(Api(), 1) == [401]
    assert statuses(Api("rpr_wrong"), 2) == [401, 429]
    elsewhere = Api()
    answer = elsewhere.http.get(f"/api/v2/{WHO}", REMOTE_ADDR="192.0.2.7")
    assert answer.status_code == 401
    # Who has a valid one is not kept out by those at the same address who have none.
    assert statuses(Api(factories.token(factories.user())), 1) == [200]


def test_behind_a_trusted_proxy_it_is_the_address_that_the_proxy_saw(
    limits: Any, settings: Any
) -> None:
    limits(anonymous=1)
    settings.TRUSTED_PROXIES = (ip_network("127.0.0.0/8"),)
    http = Api().http
    for seen, expected in (("10.0.0.1", 401), ("10.0.0.1", 429), ("10.0.0.2", 401)):
        answer = http.get(f"/api/v2/{WHO}", headers={"X-Forwarded-For": f"192.0.2.1, {seen}"})
        assert answer.status_code == expected


def test_executors_are_not_held_up(limits: Any) -> None:
    limits(token=1, anonymous=1)
    played = Agent(factories.executor("one"))
    for _ in range(4):
        played.lease()
    body = {"incarnation": 1, "reports": []}
    wrong = [Api("rpr_no").post("executors/one/reports/", body).status_code for _ in range(3)]
    assert wrong == [401] * 3


def test_below_the_limit_a_call_costs_hardly_a_statement(limits: Any) -> None:
    limits(token=6000)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert [call_permit(7, 6000) for _ in range(200)] == [0.0] * 200
    assert len(captured) == 2
    with CaptureQueriesContext(connection) as captured:
        assert [call_permit(8, 1) > 0 for _ in range(200)] == [False] + [True] * 199
    assert len(captured) == 2, "nor does one that is refused"


def test_the_table_does_not_grow_with_addresses(limits: Any) -> None:
    limits(anonymous=1)
    http = Api().http
    for number in range(20):
        http.get(f"/api/v2/{WHO}", REMOTE_ADDR=f"192.0.2.{number}")
    assert RequestBudget.objects.filter(key__gte=-4096, key__lt=0).count() <= 20
    assert not RequestBudget.objects.filter(key__lt=-4096).exists()


@pytest.mark.django_db(transaction=True)
def test_several_processes_together_keep_to_the_limit() -> None:
    def process() -> int:
        # Each call asks the database, as if it came to another process.
        return sum(throttle._take(7, 30)[0] >= 1 for _ in range(10))

    assert 30 <= sum(race(*[process] * 6)) <= 45
    (row,) = RequestBudget.objects.all()
    assert row.available < 30


def test_the_table_is_not_logged() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relpersistence FROM pg_class WHERE relname = 'sessions_app_requestbudget'"
        )
        assert cursor.fetchone()[0] in {"u", b"u"}
