"""Parked tasks: poison that RabbitMQ took off the queues, because every worker died of it.

They stay in a queue of the broker until `parked_collect` has made rows of them, which operators see
in the admin, send again or discard.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import connection, transaction
from kombu import Connection
from kombu.transport.base import Message

from reprise.models import NAME_LENGTH, ParkedState, ParkedTask
from reprise.worker.broker import EXCHANGE, KINDS, PARKED
from sessions_app.db.bulk import SentRows
from sessions_app.db.writes import atomic_writes
from sessions_app.locks import database_now
from sessions_app.services.write.audit import AuditRow, audit_append

BATCH = 200
ANSWER_SECONDS = 10.0
"""Seconds for the queue to answer: a queue without a leader never does."""
ARGUMENTS_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Death:
    """The last death of a message: where, why, when."""

    queue: str
    reason: str
    at: datetime


_DEAD = SentRows[[Message, Death]](
    ("task_id", "text", lambda message, _: _task_id(message)),
    ("name", "text", lambda message, _: _text(_header(message, "task") or "(not a task)")),
    ("arguments", "text", lambda message, _: _text(_arguments(message), ARGUMENTS_LENGTH)),
    ("queue", "text", lambda _, death: _text(death.queue)),
    ("reason", "text", lambda _, death: _text(death.reason, 64)),
    ("died_at", "timestamptz", lambda _, death: death.at),
    ("message", "text", lambda message, _: base64.b64encode(_frozen(message)).decode()),
)
# A message may come twice if its acknowledgement was lost; it then has the row's time of death and
# changes nothing. A task that was sent again and died again has a later one.
_COLLECT = f"""
    INSERT INTO reprise_parkedtask AS p
        (task_id, name, arguments, queue, reason, state, first_parked_at, parked_at, times,
         handled_by, message)
    SELECT DISTINCT ON (v.task_id) v.task_id, v.name, v.arguments, v.queue, v.reason, 'parked',
        v.died_at, v.died_at, 1, '', decode(v.message, 'base64')
    FROM {_DEAD}
    ORDER BY v.task_id, v.died_at DESC
    ON CONFLICT (task_id) DO UPDATE SET
        state = 'parked', parked_at = excluded.parked_at, times = p.times + 1,
        reason = excluded.reason, handled_at = NULL, handled_by = ''
    WHERE p.parked_at < excluded.parked_at
"""


class NoQueue(Exception):
    """A task cannot be sent again: no queue would take it, and the broker would drop it."""


def parked_collect(broker: Connection, limit: int = BATCH) -> int:
    """Make rows of at most `limit` parked messages. Return how many left the broker.

    Nothing is lost: a message is acknowledged after its row is committed.
    """
    with broker.channel() as channel:
        queue = PARKED(channel)
        messages: list[Message] = []
        while len(messages) < limit and (message := queue.get(no_ack=False)) is not None:
            messages.append(message)
        if not messages:
            return 0
        _store([(each, death) for each in messages if (death := _death(each)).reason != "expired"])
        for message in messages:
            message.ack()
    return len(messages)


def _store(dead: Sequence[tuple[Message, Death]]) -> None:
    if not dead:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_COLLECT, _DEAD.arrays(*zip(*dead, strict=True)))


def _header(message: Message, name: str) -> Any:
    return (message.headers or {}).get(name)


def _task_id(message: Message) -> str:
    return _text(_header(message, "id") or f"sha256:{sha256(_bytes(message)).hexdigest()}")


def _death(message: Message) -> Death:
    headers: dict[str, Any] = message.headers or {}
    deaths: list[dict[str, Any]] = headers.get("x-death") or []
    # RabbitMQ puts the last death first; expiry in a delay queue is no death.
    for death in deaths:
        if death.get("queue") in KINDS:
            at = death.get("time")
            when = at.replace(tzinfo=UTC) if isinstance(at, datetime) else database_now()
            return Death(death["queue"], str(death.get("reason", "")), when)
    return Death("", "unknown", database_now())


def _arguments(message: Message) -> str:
    parts = [_header(message, "argsrepr"), _header(message, "kwargsrepr")]
    return " ".join(str(part) for part in parts if part and part not in {"()", "[]", "{}"})


def _text(value: object, length: int = NAME_LENGTH) -> str:
    return str(value).replace("\0", "")[:length]


def _bytes(message: Message) -> bytes:
    body: object = message.body
    return body if isinstance(body, bytes) else str(body).encode()


def _frozen(message: Message) -> bytes:
    """Return all that is needed to send a message again, as JSON text in bytes."""
    kept = {k: v for k, v in (message.headers or {}).items() if not k.startswith("x-")}
    return json.dumps(
        {
            "headers": kept,
            "body": base64.b64encode(_bytes(message)).decode(),
            "content_type": message.content_type,
            "content_encoding": message.content_encoding,
            "correlation_id": message.properties.get("correlation_id"),
        },
        default=str,
    ).encode()


def parked_send(ids: Sequence[int], *, broker: Connection, by: str) -> int:
    """Send parked tasks again to their queues. Return the number sent.

    The broker confirms each message before its row changes. A crash in between, or a concurrent
    call, sends it twice, which every task tolerates. Raises `NoQueue` for the first task that no
    queue takes; those before it are sent.
    """
    rows = list(ParkedTask.objects.filter(pk__in=ids, state=ParkedState.PARKED).order_by("pk"))
    returned: list[str] = []
    sent: list[ParkedTask] = []
    # The broker also confirms messages that no queue takes, after it has returned them.
    with broker.Producer(auto_declare=False, on_return=_into(returned)) as producer:
        for row in rows:
            _send(producer, row)
            if returned:
                break
            sent.append(row)
    moved = _handled(sent, ParkedState.SENT, by)
    if returned:
        raise NoQueue(
            f"RabbitMQ has no queue {returned[0]!r}. A worker declares it when it connects, or "
            f"'{settings.REPRISE_COMMAND} declare_queues' does"
        )
    return moved


def _into(keys: list[str]) -> Callable[..., None]:
    def returned(_error: Exception, _exchange: str, routing_key: str, _message: Message) -> None:
        keys.append(routing_key)

    return returned


def parked_discard(ids: Sequence[int], *, by: str) -> int:
    """Discard parked tasks. Return their number. The rows stay for the record."""
    rows = list(ParkedTask.objects.filter(pk__in=ids, state=ParkedState.PARKED).order_by("pk"))
    return _handled(rows, ParkedState.DISCARDED, by)


def parked_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` tasks that somebody handled before a time. Return their number."""
    old = ParkedTask.objects.filter(handled_at__lt=before).exclude(state=ParkedState.PARKED)
    ids = list(old.order_by("handled_at").values_list("pk", flat=True)[:limit])
    deleted, _ = ParkedTask.objects.filter(pk__in=ids).delete()
    return deleted


def _send(producer: Any, row: ParkedTask) -> None:
    message = json.loads(bytes(row.message))
    producer.publish(
        base64.b64decode(message["body"]),
        # An old deadline would make a worker drop the task.
        headers={**message["headers"], "expires": None, "eta": None},
        content_type=message["content_type"],
        content_encoding=message["content_encoding"],
        correlation_id=message["correlation_id"] or str(uuid4()),
        exchange=EXCHANGE,
        # An older version may have had other queues; every worker knows every task.
        routing_key=row.queue if row.queue in KINDS else KINDS[-1],
        delivery_mode=2,
        mandatory=True,
        confirm_timeout=10.0,
    )


def _handled(rows: Sequence[ParkedTask], state: ParkedState, by: str) -> int:
    waiting = ParkedTask.objects.filter(pk__in=[row.pk for row in rows], state=ParkedState.PARKED)
    action = f"parked_task.{state.value}"
    acts = [AuditRow(by, action, "parked_task", row.task_id, {"task": row.name}) for row in rows]
    with atomic_writes() as writes:
        now = database_now()
        moved = waiting.update(state=state, handled_at=now, handled_by=by)
        audit_append(writes, acts, now=now)
    return moved
