"""Tests of how messages are sent: only by RabbitMQ, and delays without Celery's traps."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from kombu import Connection

from reprise.celery import app
from reprise.worker import broker
from tests.acceptance.broker import private_broker

SEND = """
import django, sys
django.setup()
from sessions_app.tasks import dispatch_due_retries
for countdown in (0.2, 1.4, 0, -3, None):
    dispatch_due_retries.apply_async(countdown=countdown, headers={"given": str(countdown)})
"""


def environ(**more: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
        "DATABASE_URL": "none",
        **more,
    }


@pytest.mark.parametrize("url", ["redis://h:6379/0", "sqs://", "amqp://h//;redis://h", "rabbit"])
@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "check"),
        ("-m", "celery", "-A", "reprise", "worker"),
        ("-c", "import reprise.wsgi"),
    ],
    ids=["manage", "worker", "web"],
)
def test_another_broker_is_refused_in_one_line(url: str, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *command], env=environ(BROKER_URL=url), capture_output=True, text=True
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("BROKER_URL: Reprise works with RabbitMQ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "url",
    ["amqp://h//", "amqps://u:p@h/v", "AMQP://h", "memory://localhost//", "amqp://a;amqp://b"],
)
def test_these_brokers_are_not(url: str) -> None:
    assert broker.refusal(url) == ""


def test_no_queue_would_get_the_delayed_messages_of_another() -> None:
    """RabbitMQ matches the end of a routing key, at its dots."""
    assert not any("." in kind for kind in broker.KINDS)


def test_a_task_goes_to_a_queue_that_exists() -> None:
    app.loader.import_default_modules()
    ours = [name for name in app.tasks if not name.startswith("celery.")]
    assert "sessions_app.tasks.dispatch_due_retries" in ours
    for name in ours:
        route = app.amqp.router.route({}, name)
        assert route["queue"].name in broker.KINDS, name


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private_broker((*broker.KINDS, broker.PARKED.name, broker.EXPIRED.name)) as url:
        with Connection(url) as connection:
            broker.declare(connection)
        yield url


@pytest.mark.rabbitmq
def test_a_delay_is_whole_seconds_and_the_brokers_business(url: str) -> None:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", SEND], env=environ(BROKER_URL=url), check=True)
    took = time.monotonic() - began
    came: dict[str, float] = {}
    with Connection(url) as connection:
        queue = broker.work_queue("retry")(connection.channel())
        while len(came) < 5:
            assert time.monotonic() - began < 60
            if (message := queue.get(no_ack=True)) is None:
                time.sleep(0.01)
                continue
            came[message.headers["given"]] = time.monotonic() - began
            # A worker whose clock is behind would sit on a message with an ETA.
            assert message.headers["eta"] is None
    assert 1.0 <= came["0.2"] <= took + 8
    assert 2.0 <= came["1.4"] <= took + 8
    assert max(came["0"], came["-3"], came["None"]) < came["0.2"] < came["1.4"]
