"""Figures of failures by day: the sums of hours, which long lists read in their place."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F, QuerySet
from django.test.utils import CaptureQueriesContext

from reprise.upkeep.retention import prune
from retry.evidence.termination import Termination
from sessions_app.locks import database_now
from sessions_app.models import (
    FailureDay,
    FailureHour,
    FailureReader,
    FailureSignature,
    Project,
    Session,
    SessionEvent,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors.failures import (
    BINS,
    MOST_DAYS,
    Failure,
    FailuresWanted,
    failures_listed,
)
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.failures.count import failures_rebuild
from sessions_app.services.failures.days import day_sum, late_sum
from sessions_app.services.failures.figures import Place
from tests import factories
from tests.agent import Api
from tests.factories import reread
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
DAYS = 6
NAMES = ("queue", "image", "node")
FIGURES = ("sessions", "chains", "recovered_chains")


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
    # Sums of halves are exact, in whatever order they are added.
    FailureHour.objects.update(lost_run_seconds=0.5)
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
    assert sum(shown["sparkline"]) == shown["sessions"]
    with CaptureQueriesContext(connection) as queries:
        api.read(f"failures/?{times}")
    long = len(queries)
    hours = f"since={database_now() - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    with CaptureQueriesContext(connection) as queries:
        api.read(f"failures/?{hours}")
    assert long == len(queries) + 1


def test_what_is_counted_late_is_in_both(at: Project, past: datetime) -> None:
    row = FailureHour.objects.filter(dimension="", hour__lt=past).order_by("hour")[0]
    place = Place(at.pk, "", "", row.hour, row.key)
    late_sum([place], None)
    assert not FailureDay.objects.exists()
    sum_all()
    days = FailureDay.objects.order_by("pk").values()
    before = list(days)
    FailureHour.objects.filter(pk=row.pk).update(sessions=row.sessions + 7)
    late_sum([place, place._replace(hour=past)], past.date())
    changed = [(old, new) for old, new in zip(before, days.all(), strict=True) if old != new]
    ((old, new),) = changed
    assert new["sessions"] == old["sessions"] + 7
    assert (new["hours"] or [])[row.hour.hour] == row.sessions + 7
    # An end that is counted after its day was summed.
    FailureReader.objects.filter(pk=1).update(days_before=past.date() + timedelta(days=1))
    failed(at)
    failures_count()
    today = FailureDay.objects.filter(day=past.date())
    assert set(today.values_list("dimension", flat=True)) == {"", "queue", "node"}
    counted = FailureHour.objects.filter(dimension="", hour__gte=past)
    assert today.get(dimension="").sessions == sum(counted.values_list("sessions", flat=True))


def test_sums_of_an_older_release_are_made_once_more(api: Api, past: datetime) -> None:
    sum_all()
    before = list(lists(api, past))
    sums = list(FailureDay.objects.order_by("day", "dimension", "value").values("day", "hours"))
    second = past.date() - timedelta(days=DAYS - 1)
    FailureDay.objects.filter(day=second).update(hours=None, sessions=5)
    assert list(lists(api, past)) == before
    assert sum_all() == 1
    made = FailureDay.objects.order_by("day", "dimension", "value").values("day", "hours")
    assert list(made) == sums
    assert list(lists(api, past)) == before


def test_a_rebuild_mends_hours_that_an_older_release_left_short(api: Api, at: Project) -> None:
    """It sums a day once more for what comes late, without its hours."""
    failed(at)
    failed(at)
    SessionEvent.objects.update(time=F("time") - timedelta(days=2))
    failures_count()
    assert sum_all() == 2
    midnight = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    before = list(lists(api, midnight))
    FailureDay.objects.update(hours=[None] * 24)
    assert list(lists(api, midnight)) != before
    call_command("rebuild_failures", stdout=StringIO())
    sum_all()
    assert list(lists(api, midnight)) == before


@pytest.mark.parametrize("seed", range(3))
def test_lists_are_what_the_hours_say(at: Project, seed: int) -> None:
    draw = random.Random(seed)
    midnight = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    make_hours(at, draw, midnight)
    FailureReader.objects.create(pk=1)
    sum_all()
    # The newest day is not summed yet.
    FailureDay.objects.filter(day=midnight.date() - timedelta(days=1)).delete()
    FailureReader.objects.update(days_before=midnight.date() - timedelta(days=1))
    for _ in range(60):
        until = midnight + timedelta(seconds=draw.randrange(-4 * 86_400, 86_400))
        until = draw.choice([until, until.replace(minute=0, second=0), midnight])
        length = timedelta(seconds=draw.choice([3_600, 86_400, 86_400 * MOST_DAYS]) * draw.random())
        length = draw.choice([length, timedelta(hours=24), timedelta(days=MOST_DAYS)])
        named = draw.choice([{}, {"queue": "q-1"}, {"image": "i-2"}, {"node": "n-3"}])
        wanted = FailuresWanted.of(midnight, since=until - length, until=until, **named)
        found = {each.key: each for each in failures_listed([at.pk], wanted, limit=100)}
        assert {key: plainly_shown(each) for key, each in found.items()} == plain_list(wanted)


def make_hours(at: Project, draw: random.Random, midnight: datetime) -> None:
    """Failures of four signatures in random hours of the last month and of today."""
    made = {"title": "", "cause": "unknown", "example": uuid4()}
    times = {"first_seen": midnight, "last_seen": midnight}
    for key in "abcd":
        FailureSignature.objects.create(project=at, key=key, **made, **times)
    values = [("", ""), *((name, f"{name[0]}-{number}") for name in NAMES for number in range(8))]
    places = [
        (draw.choice("abcd"), *draw.choice(values), midnight + timedelta(hours=hour))
        for hour in range(-24 * (MOST_DAYS + 3), 24)
        for _ in range(draw.randrange(4))
    ]
    for key, dimension, value, hour in sorted(set(places)):
        place = {"project": at, "key": key, "dimension": dimension, "hour": hour}
        count = draw.randrange(1, 9)
        FailureHour.objects.get_or_create(
            **place,
            value=draw.choice([value, value, value, ""]),
            defaults={"sessions": draw.choice([0, count]), "chains": 1, "recovered_chains": count},
        )


def plainly_shown(each: Failure) -> tuple[Any, ...]:
    tops = [list(top) for top in (each.queues, each.images, each.nodes)]
    return each.sessions, each.chains, each.recovered_chains, list(each.sparkline), *tops


def plain_list(wanted: FailuresWanted) -> dict[str, tuple[Any, ...]]:
    """The same from all rows of hours, one by one."""
    rows = FailureHour.objects.filter(hour__gte=wanted.since, hour__lt=wanted.until)
    shown = list(rows.filter(dimension=wanted.dimension, value=wanted.value))
    span, found = wanted.until - wanted.since, {}
    for key in {row.key for row in shown}:
        mine = [row for row in shown if row.key == key]
        bins = Counter[int]()
        for row in mine:
            bins[(row.hour - wanted.since) * BINS // span] += row.sessions
        sums = [sum(getattr(row, name) for row in mine) for name in FIGURES]
        found[key] = (*sums, [bins[at] for at in range(BINS)], *plain_tops(rows, key))
    return found


def plain_tops(rows: QuerySet[FailureHour], key: str) -> Iterator[list[tuple[str, int]]]:
    for name in NAMES:
        sums = Counter[str]()
        for row in rows.filter(key=key, dimension=name).exclude(value=""):
            sums[row.value] += row.sessions
        most = sorted((-number, value) for value, number in sums.items() if number)
        yield [(value, -number) for number, value in most[:5]]


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
