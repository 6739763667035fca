"""Figures of failures by day: the sums of hours, which long lists read in their place."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reprise.upkeep.retention import prune
from retry.evidence.termination import Termination
from sessions_app.locks import database_now
from sessions_app.models import FailureDay, FailureHour, FailureReader, Project, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.failures.count import failures_count, failures_rebuild
from sessions_app.services.failures.days import day_sum, late_add
from sessions_app.services.failures.figures import Added, Place
from tests import factories
from tests.agent import Api
from tests.factories import reread

pytestmark = pytest.mark.django_db(transaction=True)
DAYS = 6


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))


def failed(at: Project) -> Session:
    session = factories.start(factories.submit(at))
    end = End(Termination(exit_code=1), log_tail="error: bad row\n")
    sessions_settle({session.pk: end})
    return reread(session)


@pytest.fixture
def past(at: Project) -> datetime:
    """Failures every five hours of the last days. Return the midnight before now."""
    failed(at)
    failures_count()
    now = database_now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    rows = list(FailureHour.objects.all())
    for number, hours_ago in enumerate(range(5, 24 * DAYS + hour.hour + 1, 5), 1):
        for row in rows:
            row.pk, row.hour = None, hour - timedelta(hours=hours_ago)
            row.sessions, row.chains, row.lost_run_seconds = number, 1, 0.5
            if row.dimension == "queue":
                row.value = f"queue-{number % 3}"
            row.save()
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def sum_all() -> int:
    days = 0
    while day_sum(database_now().date()):
        days += 1
    return days


def lists(api: Api, midnight: datetime) -> Iterator[Any]:
    """Lists of many times, and one of a queue."""
    for since in (0, 1, 23, 24, 25, 47, 48, 72, 100, 24 * DAYS):
        for until in (-24, 0, 1, 30, 60):
            if until >= since:
                continue
            times = [midnight - timedelta(hours=hours) for hours in (since, until)]
            asked = "&".join(
                f"{name}={time:%Y-%m-%dT%H:%M:%SZ}"
                for name, time in zip(("since", "until"), times, strict=True)
            )
            for more in ("", "&queue=queue-1"):
                yield api.read(f"failures/?{asked}{more}")["results"]


def test_lists_tell_the_same_with_days_that_are_summed(api: Api, past: datetime) -> None:
    before = list(lists(api, past))
    assert any(each for each in before)
    assert sum_all() == DAYS
    assert FailureDay.objects.filter(dimension="").count() == DAYS
    assert list(lists(api, past)) == before
    # They are read: without them, something is missing.
    FailureDay.objects.all().delete()
    assert list(lists(api, past)) != before


def test_a_long_list_reads_days_and_no_hours_within_them(api: Api, past: datetime) -> None:
    sum_all()
    FailureHour.objects.filter(hour__lt=past).update(sessions=1_000_000)
    times = f"since={past - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}&until={past:%Y-%m-%dT%H:%M:%SZ}"
    (shown,) = api.read(f"failures/?{times}")["results"]
    assert shown["sessions"] < 1_000_000 > shown["queues"][0]["sessions"]
    with CaptureQueriesContext(connection) as queries:
        api.read(f"failures/?{times}")
    long = len(queries)
    with CaptureQueriesContext(connection) as queries:
        api.read("failures/")
    assert long == len(queries) + 1


def test_what_is_counted_late_is_added_to_both(at: Project, past: datetime) -> None:
    late_add([(Place(at.pk, "", "", past - timedelta(hours=1), "aaaaaaaaaaaa"), Added(1))], None)
    assert not FailureDay.objects.exists()
    sum_all()
    reader = FailureReader.objects.get(pk=1)
    assert reader.days_before == past.date()
    reader.days_before = past.date() + timedelta(days=1)
    reader.save()
    failed(at)
    failures_count()
    today = FailureDay.objects.filter(day=past.date(), sessions=1)
    assert set(today.values_list("dimension", flat=True)) == {"", "queue", "node"}


def test_the_task_sums_days_and_forgets_old_ones(at: Project, past: datetime) -> None:
    row = FailureHour.objects.filter(dimension="").first()
    assert row is not None
    row.pk, row.hour = None, past - timedelta(days=40)
    row.save()
    prune()
    summed = FailureDay.objects.filter(dimension="").values_list("day", flat=True)
    assert sorted(summed) == [past.date() - timedelta(days=days) for days in range(DAYS, 0, -1)]
    assert day_sum(database_now().date()) == 0


def test_a_rebuild_sums_them_anew(at: Project, past: datetime) -> None:
    sum_all()
    failures_rebuild()
    assert not FailureDay.objects.exists()
    assert FailureReader.objects.get(pk=1).days_before is None
    assert sum_all() == 0


def test_without_figures_there_is_nothing_to_sum(at: Project) -> None:
    assert day_sum(database_now().date()) == 0
    failures_count()
    assert day_sum(database_now().date()) == 0
