"""A worker that hangs ends itself, so that its supervisor starts it anew.

Celery's prefork pool can hang for good: when a process of it dies while the worker is connecting to
the broker again and the connection breaks once more, the main process waits for an answer of the
dead one. It still says that it is alive then, and holds messages that no other worker gets. Such a
worker does not end either when it is asked to.
"""

import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals
from celery.concurrency.prefork import TaskPool
from celery.worker.consumer import Consumer
from django.conf import settings
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

PULSE_SECONDS = 2.0
BROKER_SECONDS = 2.0
"""In which a broker that is there takes a connection."""
EXIT_CODE = 70
"""EX_SOFTWARE; whatever restarts programs that failed restarts this one."""
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
"""Seconds between tries to reach the broker. Celery's own pauses grow to half a minute."""


class PromptConsumer(Consumer):
    """Celery's consumer, back at work a few seconds after its broker, however it went away.

    Without Celery's talk among workers: nothing here needs what it tells, and a broker that goes
    away just then would end the worker.
    """

    connection_errors: tuple[type[BaseException], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "without_mingle": True, "without_gossip": True})
        # As kombu calls a broken connection in some of its calls.
        self.connection_errors = (*self.connection_errors, OperationalError)

    def ensure_connected(self, conn: Any) -> Any:
        """As Celery's, which has no setting for the pauses."""
        connect = conn.ensure_connection

        def promptly(*args: Any, **kwargs: Any) -> Any:
            pauses = {"interval_start": SHORTEST_PAUSE, "interval_max": LONGEST_PAUSE}
            return connect(*args, **{**kwargs, **pauses, "interval_step": SHORTEST_PAUSE})

        conn.ensure_connection = promptly
        return super().ensure_connected(conn)


class Watchdog:
    """A thread that calls `give_up`, with the reason, when `alive` was not called for `patience`
    seconds, in all of which the broker answered to others; or so long after `stop`."""

    def __init__(
        self, broker_answers: Callable[[], bool], give_up: Callable[[str], None], patience: float
    ):
        self._broker_answers = broker_answers
        self._give_up = give_up
        self._patience = patience
        self._stopped = threading.Event()
        self._since = time.monotonic()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def alive(self) -> None:
        """The event loop came by."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """The worker was asked to end; its loop need not come by any more."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._patience / 4
        while not self._stopped.wait(pause):
            silent = time.monotonic() - self._since
            if silent < pause + PULSE_SECONDS:
                continue  # the broker is asked only when there is reason to
            if not self._broker_answers():
                self.alive()  # without it there is nothing to do
            elif silent >= self._patience and not self._stopped.is_set():
                self._give_up(f"for {silent:.0f} s it has not looked at the broker, which answers")
        # What its tasks have not done by then, other workers will do.
        time.sleep(self._patience)
        self._give_up(f"it was asked to end {self._patience:g} s ago")


class WatchedLoop(bootsteps.StartStopStep):
    """Lets the event loop of a prefork worker show each few seconds that it runs."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def include_if(self, parent: Any) -> bool:
        return isinstance(parent.pool, TaskPool)

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Celery's hook, after each connection to the broker."""
        if not _watchdogs:
            patience = settings.REPRISE["worker_stuck_after"]
            answers = _BrokerProbe(parent.app).answers
            _watchdogs.append(Watchdog(answers, _give_up, patience))
        _watchdogs[0].alive()
        hub.call_repeatedly(PULSE_SECONDS, _watchdogs[0].alive)


class _BrokerProbe:
    def __init__(self, app: "Celery[Any]"):
        self._app = app

    def answers(self) -> bool:
        try:
            with self._app.connection_for_write(connect_timeout=BROKER_SECONDS) as broker:
                broker.connect()
        except Exception:  # noqa: BLE001  # whatever it is, the broker does not answer
            return False
        return True


def _give_up(reason: str) -> None:
    logger.critical(
        "the worker hangs: %s. It ends, to be started anew; its tasks go to other workers.",
        reason,
        extra={"threads": _stacks()},
    )
    # Nothing that could wait for the hanging thread. The pool's processes end with this one.
    os._exit(EXIT_CODE)


def _stacks() -> str:
    """Where all threads stand."""
    # A file in memory: a disk may be what they wait for.
    with os.fdopen(os.memfd_create("stacks"), "w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


_watchdogs: list[Watchdog] = []


@signals.worker_shutting_down.connect
def _stop(**_kwargs: Any) -> None:
    while _watchdogs:
        _watchdogs.pop().stop()
