"""A task that kills whoever runs it, for workers that are started with `--include`."""

import os
import signal
from collections.abc import Sequence
from uuid import uuid4

from celery import Celery, shared_task
from kombu import Connection, Queue

from reprise.worker.broker import EXCHANGE, EXPIRED, PARKED, QUEUES

NAME = "tests.faults.poison.swallow"
QUEUE = "maintenance"


@shared_task(name=NAME, ignore_result=True)
def swallow() -> None:
    """Die at once, as a bug in a C library would have it."""
    os.kill(os.getpid(), signal.SIGKILL)


def send(url: str) -> str:
    """Put one into the queue of maintenance; its id. Raises unless the broker has it there.

    A broker confirms what no queue takes, too, and forgets it: so it is for a moment after a wipe,
    when somebody who sent into another queue has made the exchange, and no worker is back yet.
    """
    task_id = str(uuid4())
    returned: list[Exception] = []
    with (
        Celery(broker=url, set_as_current=False) as app,
        Connection(url, transport_options={"confirm_publish": True}) as connection,
        connection.Producer(on_return=lambda error, *_: returned.append(error)) as producer,
    ):
        app.send_task(
            NAME,
            task_id=task_id,
            producer=producer,
            exchange=EXCHANGE.name,
            exchange_type=EXCHANGE.type,
            routing_key=QUEUE,
            retry=False,
            ignore_result=True,
            mandatory=True,
        )
    if returned:
        raise returned[0]
    return task_id


def can_be_parked(url: str) -> bool:
    """Return whether the broker has the queue for it."""
    try:
        with Connection(url, connect_timeout=3) as connection, connection.channel() as channel:
            PARKED(channel).queue_declare(passive=True)
    except (*Connection(url).connection_errors, *Connection(url).channel_errors):
        return False
    return True


def whereabouts(url: str) -> dict[str, str]:
    """In which queue each task stands that the broker has, by id; nobody may be taking them."""
    with Connection(url) as connection:
        return {
            task_id: queue.name
            for queue in (*QUEUES, PARKED, EXPIRED)
            for task_id in _ids(connection, queue)
        }


def _ids(connection: Connection, queue: Queue) -> Sequence[str]:
    found: list[str] = []
    # What is taken here and not acknowledged goes back when the channel ends.
    with connection.channel() as channel:
        bound = queue(channel)
        while (message := bound.get(no_ack=False)) is not None:
            found.append(str((message.headers or {}).get("id")))
    return found
