"""Poison on a real RabbitMQ: from the broker into a row, and back again."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from kombu import Connection

from reprise import tasks
from reprise.celery import app
from reprise.models import ParkedState, ParkedTask
from reprise.worker import broker
from reprise.worker.parking import NoQueue, parked_collect, parked_discard, parked_send
from tests.acceptance.broker import private_broker
from tests.audit import audited_acts
from tests.faults.proxy import Proxy

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.django_db,
    pytest.mark.xdist_group("parking"),  # one virtual host for all
]

QUEUES = (*broker.KINDS, broker.PARKED.name, broker.EXPIRED.name)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private_broker(QUEUES) as url:
        with Connection(url) as connection:
            broker.declare(connection)
        yield url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Connection(url, transport_options={"confirm_publish": True}) as connection:
        with connection.channel() as channel:
            for queue in QUEUES:
                channel.queue_purge(queue)  # type: ignore[attr-defined]
        yield connection


def publish(connection: Connection, body: Any = ((1, "two"), {}, {}), **headers: Any) -> str:
    task_id = headers.setdefault("id", str(uuid4()))
    known = {"task": "some.task", "argsrepr": "(1, 'two')", "kwargsrepr": "{}"}
    with connection.Producer() as producer:
        producer.publish(
            body, exchange=broker.EXCHANGE, routing_key="webhooks", headers={**known, **headers}
        )
    return str(task_id)


def kill_its_takers(connection: Connection) -> None:
    """Take the message and die with it, until the broker has enough of it."""
    for _ in range(broker.DELIVERY_LIMIT + 1):
        with connection.clone() as taker, taker.channel() as channel:
            queue = broker.work_queue("webhooks")(channel)
            message = _got(queue)
            assert message is not None
    _got(broker.PARKED(connection.channel())).requeue()


def _got(queue: Any) -> Any:
    # What was taken by one who died comes back a moment later.
    for _ in range(500):
        if (message := queue.get()) is not None:
            return message
    raise AssertionError(f"nothing in {queue.name}")


def park(connection: Connection, **headers: Any) -> str:
    task_id = publish(connection, **headers)
    kill_its_takers(connection)
    return task_id


def test_a_parked_task_becomes_a_row(connection: Connection) -> None:
    task_id = park(connection)
    assert parked_collect(connection) == 1
    row = ParkedTask.objects.get()
    assert (row.task_id, row.name, row.arguments) == (task_id, "some.task", "(1, 'two')")
    assert (row.queue, row.reason, row.state) == ("webhooks", "delivery_limit", "parked")
    assert (row.times, row.parked_at) == (1, row.first_parked_at)
    assert abs((row.parked_at - datetime.now(UTC)).total_seconds()) < 60
    assert parked_collect(connection) == 0


def test_nothing_is_lost_or_doubled_when_the_acknowledgement_is(connection: Connection) -> None:
    park(connection)

    class Gone(Exception):
        pass

    # The row is written, and the connection breaks before the message is acknowledged.
    with pytest.MonkeyPatch.context() as patch, connection.clone() as dying:
        patch.setattr("kombu.message.Message.ack", _raises(Gone))
        with pytest.raises(Gone):
            parked_collect(dying)
    assert ParkedTask.objects.count() == 1
    _got(broker.PARKED(connection.channel())).requeue()
    assert parked_collect(connection) == 1
    assert ParkedTask.objects.get().times == 1


def _raises(error: type[Exception]) -> Any:
    def raising(*_: Any, **__: Any) -> None:
        raise error

    return raising


def test_a_task_sent_again_is_the_same_task(connection: Connection) -> None:
    task_id = park(connection, expires="2020-01-01T00:00:00+00:00")
    parked_collect(connection)
    ids = [ParkedTask.objects.get().pk]
    assert parked_send(ids, broker=connection, by="alice") == 1
    message = _got(broker.work_queue("webhooks")(connection.channel()))
    assert message.payload == [[1, "two"], {}, {}]
    assert (message.headers["id"], message.headers["task"]) == (task_id, "some.task")
    assert message.headers["expires"] is None
    message.requeue()
    row = ParkedTask.objects.get()
    assert (row.state, row.handled_by) == (ParkedState.SENT, "alice")
    assert parked_send(ids, broker=connection, by="alice") == 0
    entry = audited_acts().get()
    assert (entry.actor, entry.action, entry.object_id) == ("alice", "parked_task.sent", task_id)


def test_a_message_without_a_queue_stays_parked(connection: Connection) -> None:
    """As after a wipe, before a worker has declared its queues again."""
    for _ in range(2):
        park(connection)
    parked_collect(connection)
    first, second = ParkedTask.objects.order_by("pk")
    ParkedTask.objects.filter(pk=first.pk).update(queue="retry")
    with connection.channel() as channel:
        broker.work_queue("webhooks")(channel).delete()
    try:
        with pytest.raises(NoQueue, match="no queue 'webhooks'"):
            parked_send([first.pk, second.pk], broker=connection, by="alice")
        states = dict(ParkedTask.objects.values_list("pk", "state"))
        assert states == {first.pk: ParkedState.SENT, second.pk: ParkedState.PARKED}
    finally:
        broker.declare(connection)
    assert parked_send([first.pk, second.pk], broker=connection, by="alice") == 1
    assert _got(broker.work_queue("webhooks")(connection.channel())).headers["id"] == second.task_id


def test_a_task_whose_queue_is_of_another_version_is_taken_by_another(
    connection: Connection,
) -> None:
    task_id = park(connection)
    parked_collect(connection)
    ParkedTask.objects.update(queue="verifications")
    assert parked_send([ParkedTask.objects.get().pk], broker=connection, by="alice") == 1
    assert _got(broker.work_queue("maintenance")(connection.channel())).headers["id"] == task_id


def test_a_task_that_is_poison_again_is_shown_again(connection: Connection) -> None:
    park(connection)
    parked_collect(connection)
    row = ParkedTask.objects.get()
    ParkedTask.objects.update(parked_at=datetime(2026, 1, 1, tzinfo=UTC))
    parked_send([row.pk], broker=connection, by="alice")
    kill_its_takers(connection)
    assert parked_collect(connection) == 1
    row = ParkedTask.objects.get()
    assert (row.state, row.times, row.handled_by) == ("parked", 2, "")
    assert row.parked_at > row.first_parked_at or row.first_parked_at.year == 2026


def test_a_discarded_task_stays_for_the_record(connection: Connection) -> None:
    park(connection)
    parked_collect(connection)
    row = ParkedTask.objects.get()
    assert parked_discard([row.pk], by="bob") == 1
    assert parked_discard([row.pk], by="bob") == 0
    row.refresh_from_db()
    assert (row.state, row.handled_by) == (ParkedState.DISCARDED, "bob")
    assert row.handled_at is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"task": "nul\0nul", "argsrepr": "\0"},
        {"task": "x" * 5000, "id": "y" * 5000},
        {"task": None, "argsrepr": None},
    ],
    ids=["NUL", "long", "no task"],
)
def test_no_message_stops_the_others(connection: Connection, headers: dict[str, Any]) -> None:
    park(connection, **headers)
    park(connection)
    assert parked_collect(connection) == 2
    assert ParkedTask.objects.count() == 2


def test_many_are_rows_in_one_statement(
    connection: Connection, django_assert_max_num_queries: Any
) -> None:
    ids = {publish(connection) for _ in range(30)}
    with connection.channel() as channel:
        queue = broker.work_queue("webhooks")(channel)
        for _ in ids:
            _got(queue).reject()
    with connection.channel() as channel:
        for _ in range(500):
            declared: Any = channel.queue_declare(broker.PARKED.name, passive=True)  # type: ignore[attr-defined]
            if declared.message_count == len(ids):
                break
    with django_assert_max_num_queries(5):
        assert parked_collect(connection) == 30
    assert set(ParkedTask.objects.values_list("task_id", flat=True)) == ids
    assert set(ParkedTask.objects.values_list("reason", flat=True)) == {"rejected"}


def test_a_queue_that_does_not_answer_holds_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one without a leader, which RabbitMQ itself gives up after a minute."""
    link = Proxy([urlsplit(url).port or 5672])
    there = urlsplit(url)
    through = there._replace(netloc=there.netloc.replace(f":{there.port}", f":{link.port}"))
    monkeypatch.setitem(app.conf, "broker_url", through.geturl())
    monkeypatch.setattr(tasks, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(tasks, "parked_collect", _after(lambda: link.cut(silently=True)))
    try:
        with pytest.raises(TimeoutError):
            tasks.collect_parked()
    finally:
        link.mend()
        link.close()


def _after(cut: Callable[[], None]) -> Callable[[Connection], int]:
    def collect(broker: Connection) -> int:
        broker.connect()
        cut()
        return parked_collect(broker)

    return collect
