"""The runner's poison: it counts only what the broker has in a queue."""

from collections.abc import Iterator

import pytest
from kombu import Connection

from reprise.worker import broker
from tests.acceptance.broker import private_broker
from tests.faults import poison
from tests.faults.injections import NOT_NOW

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def url() -> Iterator[str]:
    with private_broker((*broker.KINDS, broker.PARKED.name, broker.EXPIRED.name)) as url:
        yield url


def test_a_task_that_no_queue_takes_is_sent_later(url: str) -> None:
    with pytest.raises(NOT_NOW):
        poison.send(url)  # there is no exchange either
    with Connection(url) as connection:
        # What a sender makes of a wiped broker, before a worker is back.
        with connection.channel() as channel:
            broker.work_queue("retry")(channel).declare()
        with pytest.raises(NOT_NOW, match="NO_ROUTE"):
            poison.send(url)
        broker.declare(connection)
    task_id = poison.send(url)
    assert poison.whereabouts(url) == {task_id: poison.QUEUE}
    assert poison.whereabouts(url) == {task_id: poison.QUEUE}
