"""Calls whose transaction failed at an outdated plan are answered once more."""

from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import resolve

from reprise.http.calls_anew import CallsAnew
from reprise.postgresql.direct import parameters
from reprise.postgresql.pool import PromptPool

REST, WIRE = "/api/v2/sessions/", "/api/v2/executors/rack-1/lease/"


class Outdated:
    """Reads the body, and fails as many times as it is told to at a plan that no longer fits."""

    def __init__(self, *, committed: bool, failures: int = 1):
        self.bodies: list[bytes] = []
        self._committed, self._failures = committed, failures

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.resolver_match = resolve(request.path)
        self.bodies.append(request.read())
        database: Any = connection
        database.committed = self._committed
        if len(self.bodies) > self._failures:
            return HttpResponse(status=200)
        connection.ensure_connection()
        database.connection.plan_failed = True
        return HttpResponse(status=503)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "committed", "statuses"),
    [(REST, False, [200]), (REST, True, [503]), (WIRE, False, [200]), (WIRE, True, [200])],
)
def test_a_call_begins_anew_unless_it_might_do_something_twice(
    path: str, committed: bool, statuses: list[int]
) -> None:
    answer = Outdated(committed=committed)
    call = RequestFactory().post(path, b'{"a": 1}', content_type="application/json")
    assert [CallsAnew(answer)(call).status_code] == statuses
    assert answer.bodies == [b'{"a": 1}'] * (2 if statuses == [200] else 1)


@pytest.mark.django_db(transaction=True)
def test_it_begins_anew_once() -> None:
    answer = Outdated(committed=False, failures=5)
    call = RequestFactory().post(WIRE, b"{}", content_type="application/json")
    assert CallsAnew(answer)(call).status_code == 503
    assert len(answer.bodies) == 2


@pytest.mark.django_db(transaction=True)
def test_after_an_outdated_plan_no_connection_of_the_pool_has_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE changes (name varchar(10))")
    try:
        with PromptPool(kwargs=parameters(), min_size=3, max_size=3, open=True) as pool:
            with ExitStack() as held:
                for each in [held.enter_context(pool.connection()) for _ in range(3)]:
                    each.execute("SELECT name FROM changes", prepare=True)
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE changes ALTER name TYPE varchar(20)")
            with pool.connection() as first:
                with pytest.raises(psycopg.errors.FeatureNotSupported):
                    first.execute("SELECT name FROM changes")
                first.rollback()
                first.prepare_threshold = None  # as the cursor of `plans.py` does
            with ExitStack() as held:
                for each in [held.enter_context(pool.connection()) for _ in range(3)]:
                    each.execute("SELECT name FROM changes", prepare=True)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE changes")
