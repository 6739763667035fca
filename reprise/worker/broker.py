"""The topology of RabbitMQ: queues, parking of poison messages, delayed delivery.

One table for every process that sends or receives. Messages only wake processes up, so all of this
may be wiped at any time; `declare` creates it again.
"""

from amqp.exceptions import PreconditionFailed
from kombu import Connection, Exchange, Queue, binding
from kombu.transport.native_delayed_delivery import (
    bind_queue_to_native_delayed_delivery_exchange,
    declare_native_delayed_delivery_exchanges_and_queues,
)

KINDS = ("retry", "verification", "webhooks", "maintenance")
"""One queue for each kind of work. No dots: a name that ends like another one would receive its
delayed messages, too."""
DELIVERY_LIMIT = 3
"""Redeliveries of a message whose worker died with it; after these it is parked."""
MAX_LENGTH = 10_000
"""Maximum number of messages in one queue; the sweeps make up for refused ones."""
LADDER_QUEUE_TYPE = "quorum"
DELAYED = "celery_delayed_27"
"""The exchange to which Celery sends messages with a countdown."""
TRANSPORTS = ("amqp", "amqps", "pyamqp", "memory")

EXCHANGE = Exchange("reprise", type="topic", durable=True)
PARKING = Exchange("reprise_parking", type="fanout", durable=True)
# The dead letters of a queue are poison messages, and expired periodic messages, which are
# worthless. RabbitMQ routes them by the headers of a message's first death; what matches none of
# the bindings, such as poison after a delay, goes on into parking.
DEAD = Exchange(
    "reprise_dead",
    type="headers",
    durable=True,
    arguments={"alternate-exchange": PARKING.name},
)
PARKED = Queue(
    "parked",
    PARKING,
    # RabbitMQ 4 always applies a delivery limit; here nothing may be dropped.
    queue_arguments={"x-queue-type": "quorum", "x-delivery-limit": 1_000_000},
)
EXPIRED = Queue(
    "expired",
    bindings=[
        binding(
            DEAD,
            arguments={
                # Plain `all` would ignore headers that begin with x-, and match everything.
                "x-match": "all-with-x",
                "x-first-death-reason": "expired",
                "x-first-death-queue": kind,
            },
        )
        for kind in KINDS
    ],
    queue_arguments={"x-max-length": 0},
)
"""Keeps nothing: a dead letter without a queue would be sent again and again."""


def work_queue(kind: str) -> Queue:
    """Return the queue of one kind of work."""
    return Queue(
        kind,
        EXCHANGE,
        routing_key=kind,
        queue_arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": DEAD.name,
            # A dead letter leaves its queue only when the next queue has confirmed it.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-max-length": MAX_LENGTH,
        },
    )


QUEUES = tuple(work_queue(kind) for kind in KINDS)


def refusal(url: str) -> str:
    """Return why Reprise cannot use the broker at `url`, in one line; "" if it can."""
    for one in url.split(";"):
        transport = one.partition("://")[0].lower()
        if transport not in TRANSPORTS:
            return (
                f"Reprise works with RabbitMQ (amqp:// or amqps://), not with "
                f"{transport or 'nothing'}://: other brokers lose or repeat what waits for its time"
            )
    return ""


def in_memory(url: str) -> bool:
    """Return whether the broker is the one inside a standalone process."""
    return url.startswith("memory:")


def declare(connection: Connection, *, replace: bool = False) -> None:
    """Create everything that is missing; safe to repeat, and beside running workers.

    Raises `PreconditionFailed` for an existing queue with other arguments. With `replace`, such a
    work queue is deleted with its messages and created again.
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
    """Create the exchanges and queues of dead letters."""
    with connection.channel() as channel:
        for part in (PARKING, DEAD, PARKED, EXPIRED):
            part(channel).declare()


def _declare(connection: Connection, queue: Queue) -> None:
    # A refused declaration closes its channel.
    with connection.channel() as channel:
        queue(channel).declare()
