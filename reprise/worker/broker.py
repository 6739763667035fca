"""What stands in RabbitMQ: the queues, where poison is parked, the ladder of delays.

One table for every process that sends or receives. Messages only wake somebody up, so that each
of these may be wiped at any time; `declare` makes them again.
"""

from amqp.exceptions import PreconditionFailed
from kombu import Connection, Exchange, Queue, binding
from kombu.transport.native_delayed_delivery import (
    bind_queue_to_native_delayed_delivery_exchange,
    declare_native_delayed_delivery_exchanges_and_queues,
)

KINDS = ("retry", "verification", "webhooks", "maintenance")
"""One queue for each kind of work. No dots: a name that ends like another would get its delayed
messages, too."""
DELIVERY_LIMIT = 3
"""Deliveries again of a message whose worker died with it; after that it is parked."""
MAX_LENGTH = 10_000
"""Messages in one queue while no worker is there; the sweeps make up for what is refused."""
LADDER_QUEUE_TYPE = "quorum"
DELAYED = "celery_delayed_27"
"""The exchange into which Celery sends what has a countdown."""
TRANSPORTS = ("amqp", "amqps", "pyamqp", "memory")

EXCHANGE = Exchange("reprise", type="topic", durable=True)
PARKING = Exchange("reprise_parking", type="fanout", durable=True)
# A queue's dead letters are its poison, and periodic messages past their time, which are worth
# nothing. RabbitMQ tells them apart by the headers of a message's first death; what matches
# nothing here, such as poison that came down the ladder of delays, goes on into parking.
DEAD = Exchange(
    "reprise_dead",
    type="headers",
    durable=True,
    arguments={"alternate-exchange": PARKING.name},
)
PARKED = Queue(
    "parked",
    PARKING,
    # A limit is always in force on RabbitMQ 4; here nothing may be dropped.
    queue_arguments={"x-queue-type": "quorum", "x-delivery-limit": 1_000_000},
)
EXPIRED = Queue(
    "expired",
    bindings=[
        binding(
            DEAD,
            arguments={
                # Plain `all` would pass over headers that begin with x-, and match everything.
                "x-match": "all-with-x",
                "x-first-death-reason": "expired",
                "x-first-death-queue": kind,
            },
        )
        for kind in KINDS
    ],
    queue_arguments={"x-max-length": 0},
)
"""Keeps nothing: a dead letter that no queue takes would be sent again and again."""


def work_queue(kind: str) -> Queue:
    """The queue of one kind of work."""
    return Queue(
        kind,
        EXCHANGE,
        routing_key=kind,
        queue_arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": DEAD.name,
            # A dead letter leaves its queue only when the next one has confirmed it.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-max-length": MAX_LENGTH,
        },
    )


QUEUES = tuple(work_queue(kind) for kind in KINDS)


def refusal(url: str) -> str:
    """Why Reprise does not work with the broker at `url`, in a line; empty if it does."""
    for one in url.split(";"):
        transport = one.partition("://")[0].lower()
        if transport not in TRANSPORTS:
            return (
                f"Reprise works with RabbitMQ (amqp:// or amqps://), not with "
                f"{transport or 'nothing'}://: other brokers lose or repeat what waits for its time"
            )
    return ""


def in_memory(url: str) -> bool:
    """Whether the broker is the one inside a standalone process."""
    return url.startswith("memory:")


def declare(connection: Connection, *, replace: bool = False) -> None:
    """Make everything that is missing; safe to repeat, and beside running workers.

    Raises `PreconditionFailed` for a queue that is there with other arguments; with `replace` such
    a queue of work is deleted with its messages and made again.
    """
    declare_native_delayed_delivery_exchanges_and_queues(connection, LADDER_QUEUE_TYPE)
    declare_parking(connection)
    for queue in QUEUES:
        try:
            _declare(connection, queue)
        except PreconditionFailed:
            if not replace:
                raise
            with connection.channel() as channel:
                queue(channel).delete()
            _declare(connection, queue)
        bind_queue_to_native_delayed_delivery_exchange(connection, queue)


def declare_parking(connection: Connection) -> None:
    """Make what takes the dead letters."""
    with connection.channel() as channel:
        for part in (PARKING, DEAD, PARKED, EXPIRED):
            part(channel).declare()


def _declare(connection: Connection, queue: Queue) -> None:
    # A refused declaration closes its channel.
    with connection.channel() as channel:
        queue(channel).declare()
