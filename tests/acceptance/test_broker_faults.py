"""RabbitMQ stopped, killed and wiped, poison, and two beats: a broker of these tests' own."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kombu import Connection

from reprise.worker import broker
from reprise.worker.watchdog import EXIT_CODE, LONGEST_PAUSE
from sessions_app.locks import AdvisoryLock
from sessions_app.services.chains.dispatch import BATCH
from sessions_app.tasks import MAX_BATCHES
from tests.acceptance.broker import PrivateNode, delay_queues, wipe
from tests.acceptance.cluster import Cluster
from tests.acceptance.running import Program, check_database, ended, retry_waits, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.slow,
    pytest.mark.xdist_group("broker_faults"),  # one broker and one set of processes for all
    pytest.mark.timeout(900),
]

RETRIES = 5_000
"""More than one run of the task that brings them takes on."""
OUTAGE_SECONDS = float(os.environ.get("REPRISE_TEST_OUTAGE", "0"))
"""How long a broker, or all workers, are away by hand, with beat's own times; CI's are shorter."""
SHORT_TIMES = {"REPRISE_SWEEP_TAKEN_WITHIN": "2", "REPRISE_SWEEP_STANDBY_EVERY": "1"}
LATEST_SECONDS = 20.0
FASTER = "UPDATE django_celery_beat_intervalschedule SET every = 2 WHERE every < 60 RETURNING id"
FLAKY = 'test "$REPRISE_ATTEMPT" -gt 0'
# The first attempts of many chains fail, in a project that no executor serves.
FAIL_MANY = """
import sys, time
from uuid import uuid4
import django
django.setup()
from django.db import connection
from retry.evidence.termination import Termination
from sessions_app.models import Project
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import sessions_submit
from tests import factories
from interfaces.requests.bodies import SessionCreate

count, delay, spread = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
project = factories.project(uuid4().hex)
owner = factories.user(uuid4().hex, project=project).pk
queue = project.queues.get()
def asked(number):
    delays = {"retry_delay": delay + spread * number / count, "jitter": "none"}
    return SessionCreate.model_validate(
        {"command": ["true"], "retry_policy": {"max_retries": 1, **delays}})
ids = []
while len(ids) < count:
    numbers = range(len(ids), min(count, len(ids) + 500))
    placed = [Placed(queue, owner, asked(number).submission()) for number in numbers]
    ids += [made.session_id for made in sessions_submit(placed)]
for start in range(0, count, 500):
    sessions_settle({id: End(Termination(exit_code=1)) for id in ids[start:start + 500]})
time.sleep(1)  # the hints leave in the background
print(project.pk)
"""
STATES = (
    "SELECT count(*) FROM sessions_app_retrydecision d JOIN sessions_app_session s "
    "ON s.id = d.session_id WHERE s.project_id = %s AND d.state = %s"
)
ALL_DUE = (
    "SELECT coalesce(bool_and(due_at < clock_timestamp()), true) "
    "FROM sessions_app_retrydecision WHERE state = 'scheduled'"
)
LATENESS = """
    SELECT percentile_disc(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (
        ORDER BY round(extract(epoch FROM c.created_at - d.due_at), 2)::float8)
    FROM sessions_app_retrydecision d JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session c ON c.id = d.next_session_id WHERE s.project_id = %s
"""
SETTLE = """
import json, sys, time
from uuid import uuid4
import django
django.setup()
from retry.evidence.termination import Termination
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories

project = factories.project(uuid4().hex)
owner = factories.user(uuid4().hex, project=project)
policy = {"max_retries": 1, "retry_delay": 30, "jitter": "random"}
sessions = [factories.submit(project, owner=owner, retry_policy=policy) for _ in range(60)]
took = []
for session in sessions:
    began = time.perf_counter()
    sessions_settle({session.pk: End(Termination(exit_code=1))})
    took.append(time.perf_counter() - began)
print(json.dumps(took))
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateNode]:
    node = PrivateNode(tmp_path_factory.mktemp("broker"))
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture(scope="module")
def everything(
    prepared: Path, tmp_path_factory: pytest.TempPathFactory, node: PrivateNode
) -> Iterator[Cluster]:
    cluster = Cluster(copy_database(prepared, tmp_path_factory.mktemp("cluster")), node.url)
    try:
        yield cluster
        # Once, after all of it: nothing lost, nothing twice.
        assert check_database(cluster.database_url) == []
    finally:
        cluster.close()


@pytest.fixture
def cluster(everything: Cluster, node: PrivateNode) -> Iterator[Cluster]:
    """With its broker up; what a test starts ends with it."""
    node.ensure()
    with everything.alone():
        yield everything


def query(cluster: Cluster, sql: str, *values: Any) -> Any:
    """The first row's first column."""
    with psycopg.connect(cluster.database_url, autocommit=True) as connection:
        row = connection.execute(sql, values).fetchone()
        return row[0] if row else None


def waiting_in(url: str, *queues: str) -> int:
    """Return the number of ready messages in queues."""
    with Connection(url) as connection, connection.channel() as channel:
        declared = (channel.queue_declare(each, passive=True) for each in queues)  # type: ignore[attr-defined]
        return sum(each.message_count for each in declared)


def hinted(cluster: Cluster, node: PrivateNode, retry_delay: float) -> str:
    """A session whose retry waits, as its hint does in the broker."""
    wipe(node.url, broker.KINDS)
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1, "retry_delay": retry_delay})
    retry_waits(cluster.client, session)
    until(lambda: waiting_in(node.url, *delay_queues()), "its hint waits")
    return session


def came_late(cluster: Cluster, session: str) -> timedelta:
    """Return how long after it was due the second attempt came."""
    first, second = ended(cluster.client, session)
    assert (first.status, second.status) == ("ERROR", "TERMINATED")
    late = (
        "SELECT s.created_at - d.due_at FROM sessions_app_retrydecision d "
        "JOIN sessions_app_session s ON s.id = d.next_session_id WHERE d.session_id = %s"
    )
    found: timedelta = query(cluster, late, session)
    return found


# --- what waits for its time


def test_a_hint_waits_for_the_first_worker(cluster: Cluster, node: PrivateNode) -> None:
    """Only `declare_queues` has been here: the web server's countdown is in the ladder."""
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1, "retry_delay": 4.0})
    retry_waits(cluster.client, session)
    until(lambda: waiting_in(node.url, "retry"), "the hint comes down the ladder")
    worker = cluster.start_worker("--pool=solo")
    assert timedelta(0) <= came_late(cluster, session)
    worker.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_countdown_survives_its_worker_and_the_broker(
    cluster: Cluster, node: PrivateNode, how: str
) -> None:
    """No beat runs here: only the message can bring the child."""
    worker = cluster.start_worker("--concurrency=1")
    session = hinted(cluster, node, retry_delay=20.0)
    began = time.monotonic()
    worker.kill()
    getattr(node, how)()
    node.start()
    worker = cluster.start_worker("--concurrency=1")
    away = time.monotonic() - began
    late = came_late(cluster, session)
    assert timedelta(0) <= late < timedelta(seconds=max(away - 20.0, 0) + LATEST_SECONDS)
    worker.kill()


@pytest.mark.parametrize("wiped", [False, True], ids=["stopped", "wiped"])
def test_thousands_of_retries_while_the_broker_is_away(
    cluster: Cluster, node: PrivateNode, wiped: bool
) -> None:
    """Wiped: no beat is there meanwhile, and the queues are made again."""
    worker = cluster.start_worker("--concurrency=2", *([] if wiped else ["--beat"]))
    # Nothing is due before the broker is gone, on a slow machine, too.
    delay = "90" if wiped else "40"
    project = int(cluster.run(FAIL_MANY, str(RETRIES), delay, "0", seconds=300.0))
    assert RETRIES > BATCH * MAX_BATCHES
    assert query(cluster, STATES, project, "scheduled") == RETRIES
    # An orderly stop may take longer than they wait.
    node.kill() if wiped else node.stop()
    if wiped:
        node.wipe()
        until(lambda: query(cluster, ALL_DUE), "all are due")
        assert query(cluster, STATES, project, "scheduled") == RETRIES
        node.start()
        cluster.start_beat()
    until(lambda: query(cluster, STATES, project, "dispatched") == RETRIES, "all happen", 400.0)
    node.ensure()
    children = "SELECT count(*) FROM sessions_app_session WHERE project_id = %s"
    assert query(cluster, children, project) == 2 * RETRIES
    assert "Exception in thread" not in worker.stderr
    worker.kill()


@pytest.mark.parametrize("away", ["broker", "workers"])
@pytest.mark.timeout(900 + 2 * OUTAGE_SECONDS)
def test_retries_come_in_time_without(cluster: Cluster, node: PrivateNode, away: str) -> None:
    """Beat runs the sweeps itself, says so, and leaves them to the workers when they are back."""
    if not OUTAGE_SECONDS:
        query(cluster, FASTER)
    worker = cluster.start_worker("--concurrency=1")
    beat = cluster.start_beat(**({} if OUTAGE_SECONDS else SHORT_TIMES))
    until(lambda: query(cluster, "SELECT count(*) > 2 FROM reprise_sweepstart"), "sweeps run")
    spread = OUTAGE_SECONDS or 3.0
    project = int(cluster.run(FAIL_MANY, "300", "8", str(spread)))
    if away == "broker":
        node.kill()
    else:
        worker.kill()
    until(
        lambda: query(cluster, STATES, project, "dispatched") == 300, "all happen", spread + 180.0
    )
    lateness = query(cluster, LATENESS, project)
    sys.stdout.write(f"without {away} for {spread:g} s: lateness p50, p99, max: {lateness} s\n")
    assert lateness[1] <= LATEST_SECONDS
    parsed = json.loads(get(cluster, "/readyz")[1])["beat"]
    assert "runs the sweeps of deadlines itself" in parsed["detail"]
    assert "reprise_beat_standby 1.0" in get(cluster, "/metrics")[1]
    node.ensure()
    if away == "workers":
        cluster.start_worker("--concurrency=1")
    until(
        lambda: "detail" not in json.loads(get(cluster, "/readyz")[1])["beat"],
        "workers sweep again",
    )
    assert beat.alive


# --- poison


def test_poison_is_parked_and_shown(cluster: Cluster, node: PrivateNode) -> None:
    """The task kills the process that takes it, each time."""
    wipe(node.url, (*broker.KINDS, broker.PARKED.name))
    worker = cluster.start_worker("--concurrency=1", REPRISE_FAILPOINT="dispatch.before_commit")
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1})
    until(lambda: waiting_in(node.url, broker.PARKED.name) == 1, "the task is parked")
    assert worker.alive
    worker.kill()
    due = "UPDATE django_celery_beat_periodictask SET last_run_at = '2020-01-01' RETURNING id"
    assert query(cluster, due)
    worker = cluster.start_worker("--concurrency=1", "--beat")
    until(lambda: query(cluster, "SELECT count(*) FROM reprise_parkedtask"), "it is shown")
    shown = "SELECT name || ' ' || queue || ' ' || reason || ' ' || state || ' ' || times FROM {}"
    assert query(cluster, shown.format("reprise_parkedtask")) == (
        "sessions_app.tasks.dispatch_due_retries retry delivery_limit parked 1"
    )
    until(lambda: waiting_in(node.url, broker.PARKED.name) == 0, "it left the broker")
    assert "reprise_parked_tasks 1.0" in get(cluster, "/metrics")[1]
    came_late(cluster, session)
    worker.kill()


def test_expired_messages_are_dropped(cluster: Cluster, node: PrivateNode) -> None:
    """Periodic messages neither pile up while no worker is there, nor count as poison."""
    queues = (*broker.KINDS, broker.PARKED.name)
    wipe(node.url, queues)
    with Connection(node.url) as connection, connection.Producer() as producer:
        for kind in broker.KINDS:
            producer.publish({}, exchange=broker.EXCHANGE, routing_key=kind, expiration=4)
    until(lambda: waiting_in(node.url, *queues) == 4, "all have arrived")
    until(lambda: not waiting_in(node.url, *queues), "they expire")
    assert waiting_in(node.url, broker.EXPIRED.name) == 0


# --- a dead broker slows nobody


def test_settle_does_not_wait_for_a_dead_broker(cluster: Cluster, node: PrivateNode) -> None:
    # The best of some rounds: what else the machine does is not the broker's fault.
    rounds = (_alive_and_dead(cluster) for _ in range(6))
    assert any(
        statistics.median(dead) < 1.5 * statistics.median(alive) and max(dead) < 5 * max(alive)
        for alive, dead in rounds
    )


def _alive_and_dead(cluster: Cluster) -> tuple[list[float], list[float]]:
    """Return the seconds that each settle took, with a broker and without."""
    alive = json.loads(cluster.run(SETTLE))
    dead = json.loads(cluster.run(SETTLE, BROKER_URL="amqp://guest:guest@127.0.0.1:9//"))
    return alive, dead


# --- a worker that hangs


def hang(cluster: Cluster, node: PrivateNode) -> Program:
    """A worker whose pool hangs since the broker died; it may have to die more than once."""
    logs = []
    for _ in range(4):
        node.ensure()
        worker = cluster.start_worker(
            *("--concurrency=1", "--include", "tests.acceptance.hanging"),
            REPRISE_WORKER_STUCK_AFTER="4",
        )
        node.kill()
        with suppress(AssertionError):
            until(lambda worker=worker: "hangs now" in worker.stderr, "the pool hangs", 15.0)  # type: ignore[misc]
            return worker
        logs.append(worker.stderr)
        worker.kill()
    raise AssertionError(logs)


@pytest.mark.parametrize("broker_is_away", [False, True])
def test_a_worker_that_hangs_ends_and_one_does_its_work(
    cluster: Cluster, node: PrivateNode, broker_is_away: bool
) -> None:
    """No beat runs here. The supervisor, which these tests are, only sees that a process ends."""
    session = hinted(cluster, node, retry_delay=30.0)
    hanging = hang(cluster, node)
    if broker_is_away:
        time.sleep(10.0)
        assert hanging.alive  # to start it anew would help nobody
    node.start()
    assert hanging.reap() == EXIT_CODE
    assert "the worker hangs: the broker answers" in hanging.stderr
    assert "hanging.py" in hanging.stderr  # where it hung
    until(lambda: not processes_of_group(hanging.process.pid), "its pool ends with it")
    worker = cluster.start_worker("--concurrency=1")
    assert timedelta(0) <= came_late(cluster, session)
    worker.kill()


def test_a_worker_that_hangs_ends_when_it_is_asked_to(cluster: Cluster, node: PrivateNode) -> None:
    hanging = hang(cluster, node)
    hanging.signal(signal.SIGTERM)
    assert hanging.reap() == EXIT_CODE
    assert "it was told to end 4 s ago" in hanging.stderr


def test_a_worker_is_soon_back_after_its_broker(cluster: Cluster, node: PrivateNode) -> None:
    """After an outage that was longer than its patience, and than its pauses take to grow.

    The patience is longer than a pause: the broker may be back at the beginning of one.
    """
    worker = cluster.start_worker("--concurrency=1", REPRISE_WORKER_STUCK_AFTER="8")
    connected = worker.stderr.count("Connected to amqp")
    node.stop()
    until(lambda: f"Trying again in {LONGEST_PAUSE:.2f} s" in worker.stderr, "its pauses grow")
    node.start()
    until(lambda: worker.stderr.count("Connected to amqp") > connected, "it is back", 20.0)
    assert worker.alive
    worker.signal(signal.SIGTERM)
    assert worker.reap() == 0


def processes_of_group(group: int) -> list[str]:
    """Those that live; in a container nobody may be there to bury orphans."""
    command = ["ps", "-o", "stat=,args=", "-g", str(group)]
    found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [each for each in found if not each.startswith("Z")]


# --- beat, and who is dead


def get(cluster: Cluster, path: str) -> tuple[int, str]:
    request = urllib.request.Request(
        cluster.url + path, headers={"Authorization": f"Bearer {cluster.token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ticking(cluster: Cluster) -> str | None:
    """Return the name of the beat with the newest heartbeat."""
    found: str | None = query(
        cluster,
        "SELECT name FROM reprise_heartbeat WHERE part = 'beat' ORDER BY seen_at DESC LIMIT 1",
    )
    return found


def test_a_second_beat_waits_and_takes_over(cluster: Cluster) -> None:
    first = cluster.start_beat()
    until(lambda: _is_of(ticking(cluster), first), "the first one ticks")
    second = cluster.start_beat()
    until(lambda: "beat: Starting" in second.stderr, "the second one waits")
    time.sleep(5)
    assert _is_of(ticking(cluster), first)
    assert "Sending due task" not in second.stderr
    first.kill()
    until(lambda: _is_of(ticking(cluster), second), "the second one takes over")
    # And the other way round, when the one that ticks loses its connection.
    third = cluster.start_beat()
    until(lambda: "beat: Starting" in third.stderr, "a third one waits")
    holder = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = %s"
    key = AdvisoryLock.BEAT.value  # no worker is here: they also run sweeps, under other locks
    before = query(cluster, holder, key)
    assert query(cluster, "SELECT pg_terminate_backend(%s)", before)
    until(lambda: query(cluster, holder, key) not in {before, None}, "one of them has the lock")
    assert second.alive
    assert third.alive
    for beat in (second, third):
        beat.signal(signal.SIGTERM)
        assert beat.reap() == 0
    assert ticking(cluster) is None


def _is_of(name: str | None, beat: Program) -> bool:
    return name is not None and name.endswith(f":{beat.process.pid}")


def test_readyz_names_who_is_dead(cluster: Cluster, node: PrivateNode) -> None:
    worker = cluster.start_worker("--concurrency=1", "--beat")

    def states() -> dict[str, str]:
        status, text = get(cluster, "/readyz")
        parsed = json.loads(text)
        found = {name: part["state"] for name, part in parsed.items() if name != "status"}
        assert status == (200 if set(found.values()) == {"alive"} else 503)
        return found

    all_alive = dict.fromkeys(("database", "disk", "broker", "worker", "beat"), "alive")
    until(lambda: states() == all_alive, "all are alive")
    node.kill()
    until(lambda: states() == {**all_alive, "broker": "dead"}, "the broker is dead")
    assert get(cluster, "/readyz?exclude=broker")[0] == 200
    assert 'reprise_up{part="broker"} 0.0' in get(cluster, "/metrics")[1]
    connections = "SELECT count(*) FROM pg_stat_activity"
    before = query(cluster, connections)
    for _ in range(20):
        states()
    assert query(cluster, connections) <= before + 2
    node.start()
    until(lambda: states() == all_alive, "the broker is back")
    worker.signal(signal.SIGTERM)
    assert worker.reap() == 0
    # Who stops in order says so; who is killed, as by other tests, is missed after a while.
    its_row = "SELECT count(*) FROM reprise_heartbeat WHERE name LIKE %s"
    assert query(cluster, its_row, f"celery@%:{worker.process.pid}") == 0
    with psycopg.connect(cluster.database_url, autocommit=True) as connection:
        connection.execute("UPDATE reprise_heartbeat SET seen_at = now() - interval '1 hour'")
    until(lambda: states()["worker"] == "dead", "no worker is left")


def test_queues_of_an_older_version_are_replaced(cluster: Cluster, node: PrivateNode) -> None:
    with Connection(node.url) as connection, connection.channel() as channel:
        channel.queue_delete("verification")  # type: ignore[attr-defined]
        channel.queue_declare("verification", durable=True, auto_delete=False)  # type: ignore[attr-defined]
    command = (sys.executable, "manage.py", "declare_queues")
    refused = cluster.start(*command)
    assert refused.reap() == 1
    assert "--replace" in refused.stderr
    assert "Traceback" not in refused.stderr
    replaced = cluster.start(*command, "--replace")
    assert replaced.reap() == 0, replaced.stderr
    assert cluster.start(*command).reap() == 0
    node.stop()
    dead = cluster.start(*command)
    assert dead.reap() == 1
    assert dead.stderr.startswith("CommandError: RabbitMQ does not answer")
