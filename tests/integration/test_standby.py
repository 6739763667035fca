"""Beat without workers runs the sweeps of deadlines itself, and no broker holds it up."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from celery.app.task import Context
from django.conf import settings
from django.test import Client
from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

from reprise.beat import deadlines
from reprise.beat.deadlines import SWEEPS
from reprise.beat.periodic import DEADLINES, sweep_taken
from reprise.beat.scheduler import LockedScheduler
from reprise.celery import app
from reprise.models import Heartbeat, PeriodicRun, SweepStart
from reprise.monitoring import health
from reprise.postgresql.direct import connect
from scheduler.tasks import sweep_leases
from sessions_app.locks import AdvisoryLock, database_now, hold_if_free
from sessions_app.models import Breaker, FailureReader, RetryDecision, RetrySettings, Session
from sessions_app.services.breakers.acts import breaker_close, breaker_open
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.failures import count
from tests.factories import decision, policy, project, reread, settle, start, submit
from tests.integration.admin import operator, text_of, url
from tests.integration.test_breakers import chains
from tests.integration.test_parked import a_parked
from tests.integration.test_shared_budgets import budget
from tests.waiting import until

TAKE = "SELECT pg_try_advisory_lock(%s)"
RETRIES = "sessions_app.tasks.sweep_retries"
DOING = "runs the sweeps of deadlines itself"


@pytest.fixture
def silent_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It takes connections and says nothing, as a host whose disk hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "amqp://{}:{}//".format(*listener.getsockname())
        monkeypatch.setitem(app.conf, "broker_url", address)
        monkeypatch.setattr(app.amqp, "_producer_pool", None)
        yield


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> Iterator[LockedScheduler]:
    monkeypatch.setitem(settings.REPRISE, "sweep_taken_within", 0.2)
    monkeypatch.setitem(settings.REPRISE, "sweep_standby_every", 0.1)
    PeriodicTask.objects.update(last_run_at="2020-01-01T00:00:00Z")
    beat = LockedScheduler(app=app)
    yield beat
    beat.close()


def due() -> Session:
    """A session whose retry is due, and whose hint is lost."""
    return settle(submit(project(), retry_policy=policy()))


def retried(session: Session) -> bool:
    return Session.objects.filter(parent=session).exists()


def doing() -> str:
    return "".join(Heartbeat.objects.filter(part="beat").values_list("doing", flat=True))


def test_beat_knows_how_to_run_each_sweep_of_deadlines() -> None:
    assert SWEEPS.keys() == DEADLINES


@pytest.mark.django_db(transaction=True)
def test_beat_sleeps_until_a_task_is_due(
    beat: LockedScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = IntervalSchedule.objects.create(every=300_000, period=IntervalSchedule.MICROSECONDS)
    PeriodicTask.objects.update(enabled=False)
    PeriodicTask.objects.filter(task=RETRIES).update(enabled=True, interval=every, last_run_at=None)
    sent: list[Any] = []
    monkeypatch.setattr(beat._sender, "put", sent.append)
    ends, ticks = time.monotonic() + 1.5, 0
    while time.monotonic() < ends:
        time.sleep(max(0.0, beat.tick()))
        ticks += 1
    assert 3 <= len(sent) <= 6
    assert ticks <= 3 * len(sent) + 3


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_hangs_holds_neither_beat_nor_retries(
    beat: LockedScheduler, silent_broker: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    session = due()
    began = time.monotonic()
    for _ in range(20):
        beat.tick()
    assert time.monotonic() - began < 3.0  # one connection alone takes the broker's 4 s
    until(lambda: retried(session), "beat dispatches it")
    until(doing, "beat says so")
    page = text_of(operator().get(url("django_celery_beat_periodictask")))
    assert DOING in page
    assert "run by beat itself" in page
    assert DOING in client.get("/readyz").json()["beat"]["detail"]
    run = PeriodicRun.objects.get(name="sweep due retries")
    assert run.result.startswith("run by beat itself")


@pytest.mark.django_db(transaction=True)
def test_beat_runs_what_no_worker_begins_until_one_does(beat: LockedScheduler) -> None:
    """The broker takes every message here; nobody reads them."""
    for _ in range(20):
        beat.tick()
    until(doing, "beat says so")
    assert f"{DOING}: no worker has begun " in doing()
    session = due()
    until(lambda: retried(session), "beat dispatches it")
    for task in DEADLINES:
        sweep_taken(task)
    until(lambda: not doing(), "a worker is there again")
    assert SweepStart.objects.count() == len(DEADLINES)
    late = due()
    time.sleep(0.5)
    assert not retried(late)


@pytest.mark.django_db(transaction=True)
def test_beat_releases_what_nothing_holds_any_more(beat: LockedScheduler) -> None:
    over_budget, broken = due(), due()
    budget(over_budget.project, burst=0)
    breaker = breaker_open(broken.project, None, broken.failure_signature, reason="known", by="ann")
    retries_dispatch()
    held = [decision(each).held_for for each in (over_budget, broken)]
    assert held == ["shared_budget", "breaker"]
    parked = a_parked(project(), park_for=0.001)

    budget(over_budget.project, burst=1)
    breaker_close(breaker.pk, reason="", mute=False, by="ann")
    for _ in range(20):
        beat.tick()
    until(lambda: retried(over_budget), "beat dispatches what its budget has room for")
    until(lambda: retried(broken), "beat dispatches what no breaker holds any more")
    until(lambda: reread(parked).retry_state == "exhausted", "beat ends the parked chain")


@pytest.mark.django_db(transaction=True)
def test_beat_opens_and_closes_breakers(beat: LockedScheduler) -> None:
    at = project()
    rule = {"chains": 2, "window": 600, "probe_after": 1}
    RetrySettings.objects.create(project=at, breaker=rule)
    for _ in range(20):
        beat.tick()
    # What fails before it sees the rule does not count.
    until(lambda: FailureReader.objects.filter(pk=3).exists(), "beat counts failing chains")
    broken = chains(at, 2, retry_policy=policy(retry_delay=3600))
    breaker = until(lambda: Breaker.objects.filter(state="open").first(), "beat opens a breaker")
    assert breaker.signature == broken[0].failure_signature

    RetryDecision.objects.update(due_at=database_now())
    probe = until(lambda: Session.objects.filter(parent__in=broken).first(), "one of them probes")
    (waits,) = [each for each in broken if each.pk != probe.parent_id]
    until(lambda: decision(waits).held_for == "breaker", "the other one is held")
    settle(start(probe), exit_code=0, status="terminated")
    until(lambda: Breaker.objects.filter(state="closed").exists(), "beat closes it")
    until(lambda: retried(waits), "beat dispatches what it held")


@pytest.mark.django_db(transaction=True)
def test_a_long_log_delays_no_retry(beat: LockedScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[float] = []

    def stretch_count() -> tuple[int, bool]:
        read.append(time.monotonic())
        time.sleep(0.01)
        return 1, True

    monkeypatch.setattr(count, "stretch_count", stretch_count)
    monkeypatch.setattr(deadlines, "COUNT_SECONDS", 0.1)
    for _ in range(20):
        beat.tick()
    until(lambda: read, "beat counts")
    session = due()
    until(lambda: retried(session), "beat dispatches it")
    began = len(read)
    until(lambda: len(read) > began, "beat goes on counting")


@pytest.mark.django_db(transaction=True)
def test_beat_leaves_alone_what_is_off_or_another_beat_does(beat: LockedScheduler) -> None:
    PeriodicTask.objects.filter(task=RETRIES).update(enabled=False)
    PeriodicTasks.update_changed()
    with hold_if_free(AdvisoryLock.SWEEP_LEASES) as held:
        assert held
        for _ in range(20):
            beat.tick()
        until(lambda: PeriodicRun.objects.filter(name="verify starts").exists(), "beat sweeps")
        session = due()
        time.sleep(0.5)
        assert not retried(session)
        run = PeriodicRun.objects.get(name="expire leases")
        assert run.result == "run by beat itself: 0"


@pytest.mark.django_db(transaction=True)
def test_a_worker_tells_that_it_begins_a_sweep() -> None:
    sweep_leases.apply()
    assert not SweepStart.objects.exists()  # nobody wanted to know of this one
    # As a worker has it from the headers of beat's message.
    sweep_leases.request_stack.push(Context(periodic_task_name="expire leases"))
    try:
        sweep_leases()
    finally:
        sweep_leases.request_stack.pop()
    assert SweepStart.objects.get().task == "scheduler.tasks.sweep_leases"


@pytest.mark.django_db(transaction=True)
def test_a_lock_is_for_one_and_gone_afterwards() -> None:
    key = AdvisoryLock.SWEEP_STARTS
    holding = hold_if_free(key)
    assert holding.__enter__()
    with closing(connect("test")) as other:
        assert other.execute(TAKE, [key.value]).fetchone() == (False,)
        holding.__exit__(None, None, None)
    with closing(connect("test")) as other:
        assert other.execute(TAKE, [key.value]).fetchone() == (True,)
        with hold_if_free(key) as held:
            assert not held
