"""Running totals of failures: long lists read them in the place of the hours between them."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F, QuerySet
from django.test.utils import CaptureQueriesContext

from reprise.upkeep.retention import HOURS_DAYS, prune
from retry.evidence.termination import Termination
from sessions_app.locks import database_now
from sessions_app.models import (
    FailureHour,
    FailureLedger,
    FailureReader,
    FailureSignature,
    FailureTotals,
    Project,
    Session,
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
from sessions_app.services.failures import totals
from sessions_app.services.failures.count import failures_rebuild
from sessions_app.services.failures.figures import Place
from sessions_app.services.failures.totals import FEW, hour_total, totals_forget, totals_outdate
from tests import factories
from tests.agent import Api
from tests.factories import reread
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
DAYS = 6
NAMES = ("queue", "image", "node")
FIGURES = ("sessions", "chains", "recovered_chains")
HOUR = timedelta(hours=1)


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
    """Failures in every hour of the last days. Return the hour of now."""
    failed(at)
    failures_count()
    # Sums of halves are exact, in whatever order they are added.
    FailureHour.objects.update(lost_run_seconds=0.5)
    now, made = FailureHour.objects.latest("hour").hour, []
    for row in FailureHour.objects.all():
        for number in range(1, 24 * DAYS + 1):
            value = f"queue-{number % 3}" if row.dimension == "queue" else row.value
            place = {"project": at, "dimension": row.dimension, "value": value, "key": row.key}
            count = {"sessions": number, "chains": 1, "lost_run_seconds": 0.5}
            made.append(FailureHour(**place, **count, hour=now - number * HOUR))
    FailureHour.objects.bulk_create(made)
    return now


def total_all(now: datetime | None = None) -> int:
    hours = 0
    while hour_total(now or database_now()):
        hours += 1
    return hours


def lists(api: Api, now: datetime) -> Iterator[Any]:
    """Lists of many times, and one of a queue."""
    for since in (0, 1, 23, 24, 25, 47, 48, 72, 100, 24 * DAYS):
        for until in (-24, 0, 1, 30, 60):
            if until >= since:
                continue
            for more in ("", "&queue=queue-1"):
                yield listed(api, now - since * HOUR, now - until * HOUR, more)


def listed(api: Api, since: datetime, until: datetime, more: str = "") -> Any:
    asked = f"since={since:%Y-%m-%dT%H:%M:%SZ}&until={until:%Y-%m-%dT%H:%M:%SZ}"
    return api.read(f"failures/?{asked}{more}")["results"]


def test_lists_tell_the_same_with_totals(api: Api, past: datetime) -> None:
    before = list(lists(api, past))
    assert any(each for each in before)
    written = total_all()
    # Hours that ended just now are counted still.
    assert written in {24 * DAYS - 1, 24 * DAYS}
    assert list(lists(api, past)) == before
    # They are read: with others, something is different.
    newest = FailureTotals.objects.filter(ledger__dimension="", ledger__key="").latest("hour")
    FailureTotals.objects.filter(pk=newest.pk).update(sessions=[1_000_000])
    assert list(lists(api, past)) != before


def test_a_long_list_reads_few_hours(
    api: Api, past: datetime, rows_read: Callable[..., int]
) -> None:
    read = {days: rows_read(lambda: _last(api, past, days)) for days in (1, DAYS)}  # noqa: B023
    assert read[DAYS] > 4 * read[1]
    total_all()
    read = {days: rows_read(lambda: _last(api, past, days)) for days in (1, DAYS)}  # noqa: B023
    # Those at either end of the time, or of each bin, and of it as a whole and by three things.
    assert read[DAYS] <= 2 * (FEW - 1) * (1 + len(NAMES)) + 24 * DAYS
    (before,) = _last(api, past, DAYS)
    inner = FailureHour.objects.filter(hour__range=(past - 100 * HOUR, past - 50 * HOUR))
    inner.update(sessions=1_000_000)
    (shown,) = _last(api, past, DAYS)
    assert {**shown, "sparkline": []} == {**before, "sparkline": []}


def _last(api: Api, past: datetime, days: int) -> Any:
    return listed(api, past - days * 24 * HOUR, past)


@pytest.fixture
def rows_read() -> Callable[..., int]:
    """Return a function that counts the rows of hours that a call reads."""

    def counted(call: Callable[[], Any]) -> int:
        plans: list[Any] = []

        def explained(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if "sessions_app_failurehour" in sql:
                execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params, many, context)
                found = context["cursor"].fetchone()[0]
                plans.append(found if isinstance(found, list) else json.loads(found))
            return execute(sql, params, many, context)

        with connection.execute_wrapper(explained):
            call()
        return sum(_rows_of_hours(plan[0]["Plan"]) for plan in plans)

    return counted


def _rows_of_hours(plan: Any) -> int:
    of_hours = plan.get("Relation Name") == "sessions_app_failurehour"
    own = plan["Actual Rows"] * plan["Actual Loops"] if of_hours else 0
    return round(own) + sum(_rows_of_hours(each) for each in plan.get("Plans", ()))


def test_a_list_takes_as_many_statements_for_a_long_time(api: Api, past: datetime) -> None:
    total_all()
    listed(api, past - HOUR, past)  # what is looked up once
    taken = []
    for hours in (2, 24 * DAYS):
        with CaptureQueriesContext(connection) as queries:
            listed(api, past - hours * HOUR, past)
        taken.append(len(queries))
    assert taken[0] == taken[1]


def test_an_hour_takes_as_many_statements_for_many(at: Project, past: datetime) -> None:
    total_all(past - 20 * HOUR)
    taken = []
    for number in (1, 20):
        keys = [f"{number}-{place}" for place in range(number)]
        hour = FailureReader.objects.get(pk=1).summed_until
        assert hour is not None
        place = {"project": at, "dimension": "queue", "sessions": 1}
        FailureHour.objects.bulk_create(
            FailureHour(**place, key=key, value=f"{value}", hour=hour)
            for key in keys
            for value in range(FEW)
        )
        before = FailureLedger.objects.count()
        with CaptureQueriesContext(connection) as queries:
            hour_total(database_now())
        taken.append(len(queries))
        assert FailureLedger.objects.count() >= before + number
    assert taken[0] == taken[1] <= 12


def test_what_is_counted_late_is_in_the_lists(
    at: Project, api: Api, past: datetime, monkeypatch: Any
) -> None:
    monkeypatch.setattr(totals, "FEW", 1)
    total_all(past + 2 * HOUR)
    assert FailureTotals.objects.filter(hour__gt=past).exists()
    (before,) = listed(api, past - 100 * HOUR, past + HOUR)
    # The hour of now was summed too early.
    failed(at)
    failures_count()
    (after,) = listed(api, past - 100 * HOUR, past + HOUR)
    assert after["sessions"] == before["sessions"] + 1 == sum(after["sparkline"])
    nodes = [each["sessions"] for each in before["nodes"]]
    assert [each["sessions"] for each in after["nodes"]] == [nodes[0] + 1]
    assert FailureTotals.objects.exists()
    assert not FailureLedger.objects.exclude(pk__in=FailureTotals.objects.values("ledger")).exists()


@pytest.mark.parametrize("seed", range(4))
def test_lists_are_what_the_hours_say(at: Project, seed: int, monkeypatch: Any) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(totals, "FEW", 3)
    begun_anew = seed % 2 == 0
    if begun_anew:
        monkeypatch.setattr(totals, "MOST_TOTAL", 40)
    midnight = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    projects = [at, factories.project("other")]
    make_hours(projects, draw, midnight)
    FailureReader.objects.create(pk=1)
    for _ in range(4):
        total_all(midnight - timedelta(days=draw.randrange(MOST_DAYS)))
        count_late(draw)
    totals_forget(midnight - timedelta(days=HOURS_DAYS), 10_000)
    assert FailureTotals.objects.count() > 4 * len(NAMES)
    ledgers = FailureLedger.objects.values_list("project", "dimension", "value", "key")
    assert (len(set(ledgers)) < len(ledgers)) == begun_anew
    shown = 0
    for _ in range(60):
        until = midnight + timedelta(seconds=draw.randrange(-4 * 86_400, 86_400))
        until = draw.choice([until, until.replace(minute=0, second=0), midnight])
        length = timedelta(seconds=draw.choice([3_600, 86_400, 86_400 * MOST_DAYS]) * draw.random())
        length = draw.choice([length, timedelta(hours=24), timedelta(days=MOST_DAYS)])
        named = draw.choice([{}, {"queue": "q-1"}, {"image": "i-2"}, {"node": "n-3"}])
        wanted = FailuresWanted.of(midnight, since=until - length, until=until, **named)
        asked = draw.choice([projects, projects[:1]])
        found = failures_listed([each.pk for each in asked], wanted, limit=100)
        assert dict(map(plainly_shown, found)) == plain_list(asked, wanted)
        shown += len(found)
    assert shown > 60


def make_hours(projects: list[Project], draw: random.Random, midnight: datetime) -> None:
    """Failures of four signatures in random hours of the last month and of today."""
    made = {"title": "", "cause": "unknown", "example": uuid4()}
    times = {"first_seen": midnight, "last_seen": midnight}
    for key in "abcd":
        for project in projects:
            FailureSignature.objects.create(project=project, key=key, **made, **times)
    values = [("", ""), *((name, f"{name[0]}-{number}") for name in NAMES for number in range(8))]
    places = [
        (at, draw.choice("abcd"), *draw.choice(values), midnight + timedelta(hours=hour))
        for hour in range(-24 * (MOST_DAYS + 3), 24)
        for at in (0, 0, 0, 1)
        if draw.random() < 0.5
    ]
    for at, key, dimension, value, hour in sorted(set(places)):
        place = {"project": projects[at], "key": key, "dimension": dimension, "hour": hour}
        count = draw.randrange(1, 9)
        FailureHour.objects.get_or_create(
            **place,
            value=draw.choice([value, value, value, ""]),
            defaults={"sessions": draw.choice([0, count]), "chains": 1, "recovered_chains": count},
        )


def count_late(draw: random.Random) -> None:
    """Add to random rows of hours, as the one task does."""
    summed_until = FailureReader.objects.get(pk=1).summed_until
    for row in draw.sample(list(FailureHour.objects.order_by("pk")), 3):
        FailureHour.objects.filter(pk=row.pk).update(sessions=row.sessions + 5)
        place = Place(row.project_id, row.dimension, row.value, row.hour, row.key)
        totals_outdate([place], summed_until)


def plainly_shown(each: Failure) -> tuple[tuple[int, str], tuple[Any, ...]]:
    tops = [list(top) for top in (each.queues, each.images, each.nodes)]
    sums = (each.sessions, each.chains, each.recovered_chains)
    return (each.project_id, each.key), (*sums, list(each.sparkline), *tops)


def plain_list(projects: list[Project], wanted: FailuresWanted) -> dict[Any, tuple[Any, ...]]:
    """The same from all rows of hours, one by one."""
    rows = FailureHour.objects.filter(hour__gte=wanted.since, hour__lt=wanted.until)
    shown = list(rows.filter(project__in=projects, dimension=wanted.dimension, value=wanted.value))
    span, found = wanted.until - wanted.since, {}
    for project, key in {(row.project_id, row.key) for row in shown}:
        mine = [row for row in shown if (row.project_id, row.key) == (project, key)]
        bins = Counter[int]()
        for row in mine:
            bins[(row.hour - wanted.since) * BINS // span] += row.sessions
        sums = [sum(getattr(row, name) for row in mine) for name in FIGURES]
        tops = plain_tops(rows.filter(project=project, key=key))
        found[project, key] = (*sums, [bins[at] for at in range(BINS)], *tops)
    return found


def plain_tops(rows: QuerySet[FailureHour]) -> Iterator[list[tuple[str, int]]]:
    for name in NAMES:
        sums = Counter[str]()
        for row in rows.filter(dimension=name).exclude(value=""):
            sums[row.value] += row.sessions
        most = sorted((-number, value) for value, number in sums.items() if number)
        yield [(value, -number) for number, value in most[:5]]


def test_values_that_are_gone_get_out_of_the_way(at: Project, monkeypatch: Any) -> None:
    """Nodes that come and go do not make a ledger longer for ever."""
    monkeypatch.setattr(totals, "MOST_UNUSED", 8)
    now = database_now().replace(minute=0, second=0, microsecond=0)
    FailureReader.objects.create(pk=1)
    place = {"project": at, "dimension": "node", "key": "a", "sessions": 1}
    days = 3 * HOURS_DAYS
    FailureHour.objects.bulk_create(
        FailureHour(**place, value=f"node-{day}-{node}", hour=now - timedelta(days=day))
        for day in range(days)
        for node in range(FEW)
    )
    for day in range(days, 0, -1):
        total_all(now - timedelta(days=day))
        totals_forget(now - timedelta(days=day + HOURS_DAYS), 10_000)
    names = [len(names) for names in FailureLedger.objects.values_list("names", flat=True)]
    assert sum(names) <= 2 * HOURS_DAYS * FEW


def test_the_task_writes_totals_and_forgets_old_ones(at: Project, past: datetime) -> None:
    FailureHour.objects.create(project=at, dimension="", hour=past - 40 * 24 * HOUR, key="a")
    prune()
    assert not FailureHour.objects.filter(key="a").exists()
    dimensions = FailureTotals.objects.values_list("ledger__dimension", "ledger__key")
    key = FailureSignature.objects.get().key
    assert {*dimensions} >= {("", ""), ("queue", ""), ("queue", key), ("node", key)}
    assert hour_total(database_now()) == 0
    FailureTotals.objects.update(hour=F("hour") - timedelta(days=HOURS_DAYS))
    prune()
    assert not FailureLedger.objects.exists()


def test_a_rebuild_writes_them_anew(at: Project, past: datetime) -> None:
    total_all()
    failures_rebuild()
    assert not FailureTotals.objects.exists()
    assert not FailureLedger.objects.exists()
    assert FailureReader.objects.get(pk=1).summed_until is None
    assert total_all() == 0


def test_without_figures_there_is_nothing_to_write(at: Project) -> None:
    assert hour_total(database_now()) == 0
    failures_count()
    assert hour_total(database_now()) == 0
