"""The parts as in production: web, worker and executor as processes of their own, on RabbitMQ."""

import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reprise.worker.broker import EXPIRED, KINDS, PARKED
from tests.acceptance.broker import private_broker, wipe
from tests.acceptance.cluster import Cluster
from tests.acceptance.running import check_database, ended, retry_waits, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.slow,
    pytest.mark.xdist_group("rabbitmq"),  # one virtual host and one set of processes for all
]

SWEEP_SECONDS = 20.0
PROMPT_SECONDS = 10.0
"""What came within it was brought by its message; without one, nothing comes at all."""
FLAKY = 'test "$REPRISE_ATTEMPT" -gt 0'


@pytest.fixture(scope="module")
def cluster(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with private_broker((*KINDS, PARKED.name, EXPIRED.name)) as url:
        directory = copy_database(prepared, tmp_path_factory.mktemp("cluster"))
        cluster = Cluster(directory, url)
        try:
            yield cluster
            assert check_database(cluster.database_url) == []
        finally:
            cluster.close()


def _exactly_one_child(cluster: Cluster, session: str) -> None:
    attempts = ended(cluster.client, session)
    assert [a.status for a in attempts] == ["ERROR", "TERMINATED"]


@pytest.mark.parametrize("delay", [0.2, 3.0])
def test_a_hint_brings_the_child(cluster: Cluster, delay: float) -> None:
    """No beat runs here: only the message, which RabbitMQ keeps for its time, can bring it."""
    worker = cluster.start_worker("--concurrency=1")
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1, "retry_delay": delay})
    due = retry_waits(cluster.client, session).retry_state.due_at
    _exactly_one_child(cluster, session)
    came = cluster.client.attempts(session)[1].created_at
    assert due is not None
    assert came is not None
    assert timedelta(0) <= came - due < timedelta(seconds=PROMPT_SECONDS)
    worker.signal(signal.SIGTERM)
    assert worker.reap() == 0


@pytest.mark.parametrize(
    "failpoint",
    ["dispatch.before_commit", "dispatch.after_commit", "notify.before_send", "notify.after_send"],
)
def test_a_worker_killed_at(cluster: Cluster, tmp_path: Path, failpoint: str) -> None:
    """The next worker gets the unfinished messages, and one child comes of them."""
    worker = cluster.start_worker("--pool=solo", REPRISE_FAILPOINT=failpoint)
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1})
    assert worker.reap() == -signal.SIGKILL
    worker = cluster.start_worker("--pool=solo")
    _exactly_one_child(cluster, session)
    worker.kill()


@pytest.mark.parametrize("failpoint", ["hint.before_send", "hint.after_send"])
def test_a_web_server_killed_at(cluster: Cluster, failpoint: str) -> None:
    """It is the one that hints; before it has, only the sweep knows."""
    worker = cluster.start_worker("--concurrency=1", "--beat")
    cluster.web.kill()
    web = cluster.start_web(REPRISE_FAILPOINT=failpoint)
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1})
    assert web.reap() == -signal.SIGKILL
    cluster.web = cluster.start_web()
    _exactly_one_child(cluster, session)
    worker.kill()


def test_a_wiped_broker_costs_seconds(cluster: Cluster) -> None:
    """Every message is gone; the beat's sweep finds the retry."""
    worker = cluster.start_worker("--concurrency=1", "--beat")
    session = submit(cluster.client, FLAKY, policy={"max_retries": 1, "retry_delay": 8.0})
    due = retry_waits(cluster.client, session).retry_state.due_at
    until(lambda: wipe(cluster.broker_url, KINDS), "a hint waits in the broker")
    _exactly_one_child(cluster, session)
    came = cluster.client.attempts(session)[1].created_at
    assert due is not None
    assert came is not None
    assert came - due < timedelta(seconds=SWEEP_SECONDS)
    worker.kill()
