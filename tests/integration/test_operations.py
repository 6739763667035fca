"""Tests of what operators see: heartbeats, periodic tasks, readiness, metrics."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from prometheus_client.parser import text_string_to_metric_families

from reprise.beat.periodic import SWEEPS, RunLog
from reprise.beat.scheduler import BeatLock, LockedScheduler
from reprise.celery import app
from reprise.models import EventCount, EventCursor, Heartbeat, PeriodicRun
from reprise.monitoring import disk, health
from reprise.monitoring.metrics import events_count
from reprise.postgresql.direct import connect
from reprise.upkeep.restored import JUMP
from reprise.worker import heartbeats
from sessions_app.models import SessionEvent
from tests.factories import policy, project, settle, start, submit, token, user
from tests.waiting import PATIENCE_SECONDS, until

FORK = """
import os
from contextlib import ExitStack
import django
django.setup()
from celery import signals
from django.db import connection

def backend():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]

def ask():
    try:
        return backend()
    finally:
        connection.close()

parents = {ask() for _ in range(10)}
if (child := os.fork()) == 0:
    signals.worker_process_init.send(None)
    os._exit(0 if ask() not in parents and connection.pool is None else 1)
assert os.waitpid(child, 0)[1] == 0, "the child used its parent's connection"
pool = connection.pool
with ExitStack() as held:  # all of them: which one the pool hands out first is its own affair
    every = [held.enter_context(pool.connection()) for _ in range(pool.get_stats()["pool_size"])]
    assert parents <= {one.info.backend_pid for one in every}, "the parent's were replaced"
assert "connections_lost" not in pool.get_stats(), "the child closed its parent's"
"""


def metric(client: Client, name: str, secret: str, **labels: str) -> float | None:
    response = client.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    assert response.status_code == 200, response.content
    for family in text_string_to_metric_families(response.content.decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


@pytest.fixture
def admin_token() -> str:
    return token(user(superuser=True))


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test asks the parts anew; a test's uncommitted rows are seen by its own connection."""
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(disk, "watch", disk.DiskWatch())
    monkeypatch.setattr(disk, "PERIOD_SECONDS", 0.2)
    yield
    disk.watch.stop()


def beats(part: str, age: float, name: str = "one") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reprise_heartbeat (part, name, started_at, seen_at) SELECT %s, %s, t, t "
            "FROM (SELECT clock_timestamp() - make_interval(secs => %s) AS t) AS at",
            [part, name, age],
        )


def database_url() -> str:
    found = connection.settings_dict
    host = found["HOST"].replace("/", "%2F")
    port = f":{found['PORT']}" if found["PORT"] else ""
    query = (
        f"?passfile={quote(file, safe='')}" if (file := found["OPTIONS"].get("passfile")) else ""
    )
    account = ":".join(filter(None, (found["USER"], found["PASSWORD"])))
    return f"postgres://{account}@{host}{port}/{found['NAME']}{query}"


def program_run(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a process of its own, on the test's database."""
    environ = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
    }
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


@pytest.mark.django_db(transaction=True)
def test_a_forked_worker_uses_connections_of_its_own() -> None:
    done = program_run(FORK)
    assert done.returncode == 0, done.stderr


# --- readiness


@pytest.mark.django_db(transaction=True)
def test_ready_when_every_part_is_alive(client: Client) -> None:
    beats("worker", 1)
    beats("worker", 500, "dead for long")
    beats("beat", 2)
    response = client.get("/readyz")
    assert response.status_code == 200
    body = response.json()
    assert body["status"] == "ok"
    assert {name: body[name]["state"] for name in body if name != "status"} == {
        "database": "alive",
        "disk": "alive",
        "broker": "alive",
        "worker": "alive",
        "beat": "alive",
    }
    assert 0.9 < body["worker"]["age_s"] < 10


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("part", ["worker", "beat"])
def test_a_silent_process_is_named(client: Client, part: str) -> None:
    other = "beat" if part == "worker" else "worker"
    beats(other, 1)
    beats(part, heartbeats.DEAD_SECONDS + 1)
    response = client.get("/readyz")
    body = response.json()
    assert response.status_code == 503
    assert (body[part]["state"], body[other]["state"]) == ("dead", "alive")
    assert body[part]["age_s"] > heartbeats.DEAD_SECONDS
    Heartbeat.objects.filter(part=part).delete()
    body = client.get("/readyz").json()
    assert body[part] == {"state": "dead", "detail": "none has been heard of"}
    # A load balancer does not ask for it.
    assert client.get(f"/readyz?exclude={part}").status_code == 200
    assert client.get(f"/readyz?exclude=broker,{part}&exclude={other}").status_code == 200
    assert client.get("/readyz?exclude=database").status_code == 503


FULL = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON reprise_heartbeat
        FOR EACH ROW EXECUTE FUNCTION full_disk()
"""
NOT_FULL = "DROP TRIGGER IF EXISTS full_disk ON reprise_heartbeat; DROP FUNCTION full_disk"


@pytest.fixture
def full_disk() -> Iterator["psycopg.Connection[Any]"]:
    """As PostgreSQL tells it; the connection makes room again."""
    with connect("test") as other:
        other.execute(FULL)
        try:
            yield other
        finally:
            other.execute(NOT_FULL)


@pytest.mark.django_db(transaction=True)
def test_a_full_disk_is_told_and_nobody_else_is_blamed(
    client: Client, admin_token: str, caplog: pytest.LogCaptureFixture, request: Any
) -> None:
    beats("worker", heartbeats.DEAD_SECONDS + 9)  # as it cannot be written any more
    beats("beat", 1)
    other: psycopg.Connection[Any] = request.getfixturevalue("full_disk")
    for _ in range(3):
        response = client.get("/readyz")
        assert response.status_code == 503
        body = response.json()
        assert body["disk"]["state"] == "dead"
        assert "No space left on device" in body["disk"]["detail"]
        assert (body["database"]["state"], body["worker"]["state"]) == ("alive", "unknown")
    assert client.get("/readyz?exclude=broker,worker,beat,disk").status_code == 200
    assert metric(client, "reprise_up", admin_token, part="disk") == 0
    assert metric(client, "reprise_up", admin_token, part="database") == 1
    assert [r.levelname for r in caplog.records if r.name == "reprise.monitoring.health"] == [
        "WARNING"
    ]
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == [
        "the database cannot write: could not extend file: No space left on device"
    ]
    call_command("check_heartbeat", "worker")  # not a reason to start workers anew
    other.execute("ALTER TABLE reprise_heartbeat DISABLE TRIGGER full_disk")
    until(lambda: client.get("/readyz").json()["disk"]["state"] == "alive", "there is room")
    assert client.get("/readyz").json()["worker"]["state"] == "dead"
    with pytest.raises(CommandError):
        call_command("check_heartbeat", "worker")


@pytest.mark.django_db(transaction=True)
def test_the_write_that_is_tried_needs_room() -> None:
    """A row alone is written on the fullest of disks, into a page that has room."""
    with connect("test") as other:
        other.execute(disk._SMALL)
        plan = other.execute(f"EXPLAIN (ANALYZE, BUFFERS) {disk._SPILL}").fetchall()
    assert any(re.search(r"temp read=\d+ written=\d\d", line) for (line,) in plan), plan


@pytest.fixture(params=["refuses", "is silent"])
def dead_address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            listener.listen()
        yield listener.getsockname()


@pytest.mark.django_db(transaction=True)
def test_a_dead_broker_is_named_in_time(
    client: Client, dead_address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    beats("worker", 1)
    beats("beat", 1)
    url = "amqp://{}:{}//".format(*dead_address)
    monkeypatch.setitem(app.conf, "broker_url", url)
    for _ in range(5):
        began = time.monotonic()
        response = client.get("/readyz")
        assert time.monotonic() - began < 8.0
        assert response.status_code == 503
        body = response.json()
        assert body["broker"]["state"] == "dead"
        assert body["database"]["state"] == body["worker"]["state"] == "alive"
    assert client.get("/readyz?exclude=broker").status_code == 200
    until_no_probe_runs()


def until_no_probe_runs() -> None:
    deadline = time.monotonic() + 60
    while any(probe._running for probe in health._probes):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_dead_database_is_named_in_time(dead_address: tuple[str, int]) -> None:
    """In a process of its own, whose database is not there."""
    script = """
import django, time
django.setup()
from django.test import Client
from django.test.utils import CaptureQueriesContext
client = Client()
client.get("/healthz", SERVER_NAME="localhost")  # the first request imports everything
for path in ("/readyz", "/readyz", "/healthz", "/metrics"):
    began = time.monotonic()
    response = client.get(path, headers={"Authorization": "Bearer secret"}, SERVER_NAME="localhost")
    print(path, response.status_code, time.monotonic() - began < 8.0)
    text = response.content.decode()
    print('"database": {"state": "dead"' in text, '"beat": {"state": "unknown"' in text,
          'reprise_up{part="database"} 0.0' in text)
"""
    environ = {
        **os.environ,
        "DATABASE_URL": "postgres://nobody@{}:{}/none".format(*dead_address),
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
        "REPRISE_METRICS_TOKEN": "secret",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.splitlines() == [
        "/readyz 503 True",
        "True True False",
        "/readyz 503 True",
        "True True False",
        "/healthz 200 True",
        "False False False",
        "/metrics 200 True",
        "False False True",
    ], done.stderr


@pytest.mark.django_db(transaction=True)
def test_many_who_ask_are_one_probe(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 60.0)
    looked: list[int] = []

    def look() -> health.Parts:
        looked.append(1)
        return {"broker": health.Part("alive")}

    probe = health.Probe(look, {"broker": health.Part("dead")})
    for _ in range(20):
        probe.start(time.monotonic())
        assert probe.answer(time.monotonic())["broker"].alive
    assert len(looked) == 1


# --- metrics


@pytest.mark.django_db(transaction=True)
def test_metrics_are_for_cluster_admins(
    client: Client, admin_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = project()
    assert client.get("/metrics").status_code == 401
    for header, status in (
        ("Bearer wrong", 401),
        ("Basic abc", 401),
        (f"Bearer {token(user(project=work))}", 403),
        (f"Bearer {token(user('root', superuser=True), project=work)}", 403),
        (f"Bearer {admin_token}", 200),
    ):
        response = client.get("/metrics", headers={"Authorization": header})
        assert response.status_code == status, header
    monkeypatch.setattr("django.conf.settings.REPRISE_METRICS_TOKEN", "for prometheus")
    response = client.get("/metrics", headers={"Authorization": "Bearer for prometheus"})
    assert response.status_code == 200
    # An empty setting opens nothing.
    monkeypatch.setattr("django.conf.settings.REPRISE_METRICS_TOKEN", "")
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401


def the_mark_is_good() -> None:
    """As it is some seconds later, when what other databases of the server do has ended, too."""
    EventCursor.objects.update(fence_xid=0, fence_at="2020-01-01T00:00:00Z")


@pytest.mark.django_db(transaction=True)
def test_counters_follow_the_log_before_and_after_it_is_counted(
    client: Client, admin_token: str
) -> None:
    at = project()

    def fail() -> None:
        first = start(submit(at, retry_policy=policy(max_retries=1, retry_delay=3600)))
        settle(first)

    def scheduled() -> float | None:
        return metric(
            client,
            "reprise_session_retry_scheduled_total",
            admin_token,
            cause="kernel_nonzero_exit",
        )

    fail()
    assert scheduled() == 1
    assert events_count() == 0  # the first mark
    fail()
    the_mark_is_good()
    assert events_count() > 0
    assert EventCount.objects.get(metric="scheduled").value == 1
    assert scheduled() == 2
    settle(start(submit(at, retry_policy=policy(max_retries=0))))
    assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 0
    decided = {"policy": "", "rule": "", "reason": "no_policy"}
    assert metric(client, "reprise_session_retry_decisions_total", admin_token, **decided) == 1
    assert metric(client, "reprise_retries", admin_token, state="scheduled") == 2


@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_is_counted_once(client: Client, admin_token: str) -> None:
    """The mark waits for every transaction that ran when it was set."""
    at = project()
    insert = (
        "INSERT INTO sessions_app_sessionevent "
        "(session_id, root_id, project_id, job_set, attempt, seq, type, time, data) "
        "VALUES (gen_random_uuid(), gen_random_uuid(), %s, '', 0, 1, "
        "'session.retry_succeeded', now(), '{}')"
    )
    other = connect("test")
    with other, other.transaction():
        other.execute(insert, [at.pk])
        with connection.cursor() as cursor:
            cursor.execute(insert, [at.pk])
        EventCursor.objects.all().delete()
        assert events_count() == 0
        with connection.cursor() as cursor:
            cursor.execute("UPDATE reprise_eventcursor SET fence_at = fence_at - interval '1 day'")
        assert events_count() == 0
        assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 1
    assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 2
    the_mark_is_good()
    assert events_count() == 2
    assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 2


def event_insert(at: Any, identity: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sessions_app_sessionevent "
            "(id, session_id, root_id, project_id, job_set, attempt, seq, type, time, data) "
            "OVERRIDING SYSTEM VALUE VALUES (%s, gen_random_uuid(), gen_random_uuid(), %s, '', 0, "
            "1, 'session.retry_succeeded', now(), '{}')",
            [identity, at.pk],
        )


@pytest.mark.django_db(transaction=True)
def test_events_are_counted_and_not_gaps_of_ids(
    client: Client, admin_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored database goes on a billion ids later."""
    monkeypatch.setattr("reprise.monitoring.metrics.SLICE", 2)
    at = project()
    for identity in (1, 2, 3, JUMP, 2 * JUMP, 2**62):
        event_insert(at, identity)
    assert events_count() == 0  # the first mark
    the_mark_is_good()
    with CaptureQueriesContext(connection) as asked:
        assert events_count() == 6
    assert len(asked) < 50
    assert EventCursor.objects.get().counted_id == 2**62
    assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 6


@pytest.mark.django_db(transaction=True)
def test_the_count_stays_when_every_counted_event_is_pruned(
    client: Client, admin_token: str
) -> None:
    at = project()
    event_insert(at, 1000)
    assert events_count() == 0  # the first mark
    the_mark_is_good()
    assert events_count() == 1
    SessionEvent.objects.all().delete()
    # The next event is not yet seen when the mark is set to the last one.
    EventCursor.objects.update(fence_id=0)
    event_insert(at, 1001)
    the_mark_is_good()
    assert events_count() == 0
    assert EventCursor.objects.get().counted_id == 1000
    the_mark_is_good()
    assert events_count() == 1
    assert metric(client, "reprise_session_retry_succeeded_total", admin_token) == 2


@pytest.mark.django_db(transaction=True)
def test_a_scrape_costs_the_same_whatever_there_is(
    client: Client, admin_token: str, django_assert_max_num_queries: Any
) -> None:
    at = project()
    log = RunLog()
    for number in range(30):
        log.record(f"task {number}", time.time(), 0.1)
        settle(start(submit(at, retry_policy=policy(max_retries=1, retry_delay=3600))))
    with django_assert_max_num_queries(12):
        assert metric(client, "reprise_retries", admin_token, state="scheduled") == 30


# --- periodic tasks


@pytest.mark.django_db
def test_a_run_is_written_down(django_assert_num_queries: Any) -> None:
    log, began = RunLog(), time.time()
    with django_assert_num_queries(1):
        log.record("sweep", began, 0.25, result="7")
    log.record("sweep", began + 10, 0.5, error="ValueError: \0 bad")
    run = PeriodicRun.objects.get(name="sweep")
    assert (run.runs, run.failures, run.duration) == (2, 1, 0.5)
    assert (run.result, run.error) == ("", "ValueError:  bad")
    assert run.started_at.timestamp() == pytest.approx(began + 10)


@pytest.mark.django_db
def test_runs_that_say_the_same_are_counted_and_rarely_written(
    django_assert_num_queries: Any,
) -> None:
    log, began = RunLog(), time.time()
    with django_assert_num_queries(2):
        for number in range(4):
            log.record("sweep", began + 10 * number, 0.25, result="0")
    run = PeriodicRun.objects.get(name="sweep")
    assert (run.runs, run.failures) == (4, 0)
    assert run.started_at.timestamp() == pytest.approx(began + 30)
    log.record("sweep", began + 31, 0.25, result="1")
    log.record("sweep", began + 32, 0.25, error="bad")
    log.record("sweep", began + 33, 0.25, error="bad")
    run.refresh_from_db()
    assert (run.runs, run.failures) == (7, 2)


@pytest.mark.django_db
def test_every_periodic_task_is_a_row_of_a_task_that_exists() -> None:
    app.loader.import_default_modules()
    rows = {row.name: row for row in PeriodicTask.objects.all()}
    assert set(rows) == set(SWEEPS)
    for row in rows.values():
        assert row.task in app.tasks
        assert row.queue in app.amqp.queues


# --- beat


class Unsent(LockedScheduler):
    """Beat that keeps what it would send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        super().__init__(app=app)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        self.sent.append(entry)


def steps(beat: Unsent, count: int = 20) -> list[str]:
    beat.sent.clear()
    for _ in range(count):
        beat.tick()
    return [entry.name for entry in beat.sent]


@pytest.fixture
def two_beats() -> Iterator[tuple[Unsent, Unsent]]:
    # On a slow machine some of the real intervals end while a test ticks.
    hour, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.update(last_run_at="2020-01-01T00:00:00Z", interval=hour)
    first, second = Unsent(), Unsent()
    yield first, second
    for beat in (first, second):
        beat._lock.release()


@pytest.mark.django_db(transaction=True)
def test_one_beat_ticks_and_the_other_one_takes_over(two_beats: tuple[Unsent, Unsent]) -> None:
    first, second = two_beats
    assert sorted(steps(first)) == sorted(SWEEPS)
    assert steps(second) == []
    assert Heartbeat.objects.filter(part="beat").count() == 1
    first.close()
    # What the first one wrote down when it closed is known: nothing is due again at once.
    assert steps(second) == []
    assert second._lock.hold()


@pytest.mark.django_db(transaction=True)
def test_a_beat_that_loses_its_connection_stops_ticking(
    two_beats: tuple[Unsent, Unsent],
) -> None:
    first, second = two_beats
    steps(first)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'reprise-beat'"
        )
        while True:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reprise-beat'"
            )
            if cursor.fetchone() == (0,):
                break
    second.tick()
    assert second._holds
    assert steps(first) == []
    assert not first._holds


@pytest.mark.django_db(transaction=True)
def test_a_change_by_an_operator_is_seen(
    two_beats: tuple[Unsent, Unsent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprise.beat.scheduler.MAX_INTERVAL", 0.0)
    beat, _ = two_beats
    steps(beat)
    row = PeriodicTask.objects.get(name="expire leases")
    row.interval = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    row.expire_seconds = 30
    row.save()
    steps(beat)
    time.sleep(1.1)
    steps(beat)
    assert [entry.name for entry in beat.sent] == ["expire leases"]
    # Its message is worth nothing when the next one comes, whatever was there before.
    assert beat.sent[0].options["expires"] == 1
    row.enabled = False
    row.save()
    steps(beat)
    time.sleep(1.1)
    assert steps(beat) == []


@pytest.mark.django_db(transaction=True)
def test_an_idle_beat_asks_little(two_beats: tuple[Unsent, Unsent]) -> None:
    beat, _ = two_beats
    steps(beat)
    with connection.execute_wrapper(refuse):
        steps(beat, 50)


def refuse(execute: Any, sql: str, *_: Any) -> Any:
    raise AssertionError(f"an idle beat asks: {sql}")


@pytest.mark.django_db(transaction=True)
def test_a_lock_says_that_its_beat_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = BeatLock()
    assert lock.hold()
    try:
        seen = Heartbeat.objects.get(part="beat").seen_at
        monkeypatch.setattr(heartbeats, "INTERVAL_SECONDS", 0.0)
        assert lock.hold()
        assert Heartbeat.objects.get(part="beat").seen_at > seen
        assert not BeatLock().hold()
    finally:
        lock.release()
    assert not Heartbeat.objects.filter(part="beat").exists()


@pytest.mark.django_db(transaction=True)
def test_old_dead_processes_are_forgotten() -> None:
    beats("worker", timedelta(days=2).total_seconds(), "long ago")
    beats("worker", 100, "of today")
    lock = BeatLock()
    assert lock.hold()
    lock.release()
    assert [beat.name for beat in Heartbeat.objects.all()] == ["of today"]
