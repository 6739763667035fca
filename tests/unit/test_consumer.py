"""The worker's consumer, without a broker."""

from types import SimpleNamespace

import pytest
from celery.exceptions import WorkerShutdown
from celery.worker.consumer.gossip import Gossip
from celery.worker.consumer.mingle import Mingle
from kombu.exceptions import OperationalError

from reprise.celery import app
from reprise.worker import watchdog
from reprise.worker.watchdog import PromptConsumer


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> PromptConsumer:
    monkeypatch.setitem(app.conf, "broker_url", "amqp://guest:guest@127.0.0.1:9//")
    controller = SimpleNamespace(use_eventloop=False, semaphore=None)
    return PromptConsumer(lambda _request: None, app=app, controller=controller)


@pytest.mark.parametrize("error", [OSError("refused"), OperationalError("refused")])
def test_it_outlives_a_broker_that_goes_away_while_it_starts(
    consumer: PromptConsumer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    meets = iter([error, error, WorkerShutdown(0)])

    def start(_consumer: PromptConsumer) -> None:
        raise next(meets)

    monkeypatch.setattr(consumer.blueprint, "start", start)
    with pytest.raises(WorkerShutdown):
        consumer.start()
    assert next(meets, None) is None


def test_it_asks_no_other_worker_before_it_works(consumer: PromptConsumer) -> None:
    steps = vars(consumer)["steps"]
    assert steps
    assert not any(isinstance(step, Mingle | Gossip) for step in steps)


def test_a_pause_before_the_next_connection_is_no_hang(
    consumer: PromptConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulses = 0

    def alive() -> None:
        nonlocal pulses
        pulses += 1
        if pulses > 3:  # one for each attempt and one for each second of its pause
            raise WorkerShutdown(0)

    monkeypatch.setattr(watchdog, "_watchdogs", [SimpleNamespace(alive=alive)])
    with pytest.raises(WorkerShutdown):
        consumer.connection_for_read()
    assert pulses == 4
