"""A worker that hangs ends itself, so that its supervisor restarts it.

Celery's prefork pool can hang forever: if one of its processes dies while the worker reconnects to
the broker, and the connection breaks once more, the main process waits for an answer of the dead
one. It still reports that it is alive, and holds messages that no other worker gets. Such a worker
does not end when asked to, either.
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
"""Seconds in which a live broker accepts a connection."""
EXIT_CODE = 70
"""EX_SOFTWARE; supervisors restart programs that exit with a failure."""
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
"""Seconds between attempts to reach the broker. Celery's own pauses grow to half a minute."""


class PromptConsumer(Consumer):
    """Celery's consumer, which reconnects within seconds of the broker's return.

    Gossip and mingle among workers are off: nothing here needs them, and a broker that goes away
    during them would end the worker.
    """

    connection_errors: tuple[type[BaseException], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "without_mingle": True, "without_gossip": True})
        # kombu raises this for a broken connection in some of its calls.
        self.connection_errors = (*self.connection_errors, OperationalError)

    def ensure_connected(self, conn: Any) -> Any:
        """Connect with short pauses, for which Celery has no setting. A pause is no hang."""
        connect = conn.ensure_connection

        def promptly(*args: Any, callback: Callable[[], None], **kwargs: Any) -> Any:
            def each_second() -> None:
                callback()
                for watchdog in _watchdogs:
                    watchdog.alive()

            pauses = {"interval_start": SHORTEST_PAUSE, "interval_max": LONGEST_PAUSE}
            pauses["interval_step"] = SHORTEST_PAUSE
            return connect(*args, **kwargs, **pauses, callback=each_second)

        conn.ensure_connection = promptly
        return super().ensure_connected(conn)


class Watchdog:
    """A thread that calls `give_up` with a reason when the worker hangs.

    The worker hangs if `alive` was not called for `seconds` although the broker answers, or if it
    still runs that long after `stop`. The worker's loop calls `alive`, and so do its attempts to
    connect: one that fails while the broker starts is followed by a pause.
    """

    def __init__(
        self, broker_answers: Callable[[], bool], give_up: Callable[[str], None], seconds: float
    ):
        self._broker_answers = broker_answers
        self._give_up = give_up
        self._seconds = seconds
        self._stopped = threading.Event()
        self._since = time.monotonic()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def alive(self) -> None:
        """Note that the event loop runs."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """Note that the worker was asked to end; its loop may stop."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._seconds / 4
        while not self._stopped.wait(pause):
            silent = time.monotonic() - self._since
            if silent < pause + PULSE_SECONDS:
                continue  # ask the broker only when there is a reason
            if not self._broker_answers():
                self.alive()  # without a broker there is nothing to do
            elif silent >= self._seconds and not self._stopped.is_set():
                self._give_up(
                    f"the broker answers, but the worker has not asked it for {silent:.0f} s"
                )
        # Other workers take over what its tasks have not finished by then.
        time.sleep(self._seconds)
        self._give_up(f"it was told to end {self._seconds:g} s ago")


class WatchedLoop(bootsteps.StartStopStep):
    """A worker step that makes the prefork worker's event loop report every few seconds."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def include_if(self, parent: Any) -> bool:
        return isinstance(parent.pool, TaskPool)

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Start the watchdog at the first connection; register its pulse at each one."""
        if not _watchdogs:
            seconds = settings.REPRISE["worker_stuck_after"]
            answers = _BrokerProbe(parent.app).answers
            _watchdogs.append(Watchdog(answers, _give_up, seconds))
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
        "the worker hangs: %s. It ends and should be restarted. Other workers get its tasks.",
        reason,
        extra={"threads": _stacks()},
    )
    # This must not wait for the hanging thread. The pool's processes end with this one.
    os._exit(EXIT_CODE)


def _stacks() -> str:
    """Return the stacks of all threads."""
    # A file in memory: the threads may be waiting for a disk.
    with os.fdopen(os.memfd_create("stacks"), "w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


_watchdogs: list[Watchdog] = []


@signals.worker_shutting_down.connect
def _stop(**_kwargs: Any) -> None:
    while _watchdogs:
        _watchdogs.pop().stop()
