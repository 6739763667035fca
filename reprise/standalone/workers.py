"""Celery's worker and beat as threads of this process."""

import threading
from typing import Any

from celery.worker import WorkController

from reprise.beat.scheduler import LockedScheduler
from reprise.celery import app
from reprise.standalone.errors import StandaloneError
from reprise.worker.heartbeats import WorkerHeart
from sessions_app.tasks import sweep_retries

CONCURRENCY = 2
STOP_SECONDS = 2.0


def probe_broker() -> None:
    """Connect once, so that a wrong address is reported at the start. Raises `StandaloneError`."""
    with app.connection_for_write() as connection:
        failures: tuple[type[BaseException], ...] = (OSError, *connection.connection_errors)
        try:
            connection.connect()
        except failures as error:
            raise StandaloneError(f"the broker of BROKER_URL cannot be used: {error}") from error


class Worker:
    """A Celery worker on a pool of threads."""

    name = "worker"

    def __init__(self) -> None:
        self._controller: Any = WorkController(
            app=app,
            hostname="standalone",
            pool_cls="threads",
            concurrency=CONCURRENCY,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            loglevel="WARNING",
        )
        self._thread = threading.Thread(target=self._controller.start, name=self.name, daemon=True)
        self._heart = WorkerHeart("standalone")

    def start(self) -> None:
        """Start to consume, and sweep once for what became due while no worker ran."""
        self._thread.start()
        self._heart.start()
        sweep_retries.apply_async(retry=False)

    def stop(self) -> None:
        """Finish the running tasks and stop; abandon a task that takes longer."""
        self._heart.stop()
        # The pool's own stop waits for its tasks, however long they take.
        stopping = threading.Thread(target=self._controller.stop, name="stop", daemon=True)
        stopping.start()
        stopping.join(timeout=STOP_SECONDS)
        self._thread.join(timeout=STOP_SECONDS)

    @property
    def alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()


class Beat:
    """Celery's beat on the rows of django-celery-beat.

    With a loop of its own: Celery's sleeps through a stop, and seconds later would save its
    schedule in a database that is gone.
    """

    name = "beat"

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start to tick."""
        self._thread.start()

    def _run(self) -> None:
        scheduler = LockedScheduler(app=app)
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = scheduler.tick()
            if scheduler.should_sync():
                scheduler.sync()
        scheduler.close()

    def stop(self) -> None:
        """Stop ticking; the schedule is in the database."""
        self._stopped.set()
        self._thread.join(timeout=2)

    @property
    def alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()
