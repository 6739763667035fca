"""Beat: django-celery-beat's scheduler, of which one process ticks and the others wait.

Beat never waits for the broker: a thread sends the messages. Sweeps of deadlines that no worker
begins in time run here, in another thread.
"""

import logging
import select
import time
from contextlib import suppress
from typing import Any

import psycopg
from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, InterfaceError, close_old_connections
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from reprise.beat.sender import Sender
from reprise.beat.standby import Standby
from reprise.postgresql.direct import connect
from reprise.worker import heartbeats
from sessions_app.locks import AdvisoryLock

logger = logging.getLogger(__name__)

MAX_INTERVAL = 5.0
"""Maximum seconds until a change in the admin is noticed."""
WAIT_SECONDS = 2.0
"""Seconds between two attempts of a waiting beat to take the lock."""
ONCE_MORE = {"max_retries": 1, "interval_start": 0}
"""Retry policy of messages: the first one after a broker restart meets a dead connection."""


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())


class BeatLock:
    """The right to tick: an advisory lock, which ends with the connection that holds it."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self.name = heartbeats.this_process("beat")
        self._seen = 0.0

    def hold(self) -> bool:
        """Return whether this beat may tick; take the lock if it is free. Never waits."""
        try:
            return self._still_held() or self._take()
        except psycopg.Error as error:
            logger.warning("beat: %s", _in_a_line(error))
            self._drop()
            return False

    def _still_held(self) -> bool:
        if self._connection is None:
            return False
        # A live, idle connection has nothing to read. If it is readable it has ended; the check
        # costs no statement.
        readable, _, _ = select.select([self._connection.fileno()], [], [], 0)
        if readable:
            self._connection.execute("SELECT 1")
        if time.monotonic() >= self._seen + heartbeats.INTERVAL_SECONDS:
            heartbeats.beat(self._connection, "beat", self.name)
            self._seen = time.monotonic()
        return True

    def _take(self) -> bool:
        connection = connect("reprise-beat")
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", [AdvisoryLock.BEAT.value])
        if taken.fetchone() != (True,):
            connection.close()
            return False
        self._connection = connection
        # The beat that ticked before does not any more.
        heartbeats.forget(connection, "beat", None)
        heartbeats.beat(connection, "beat", self.name)
        self._seen = time.monotonic()
        return True

    def release(self) -> None:
        """Release the lock, so that another beat can tick at once."""
        try:
            if self._connection is not None:
                heartbeats.forget(self._connection, "beat", self.name)
        except psycopg.Error as error:
            logger.info("beat: %s", _in_a_line(error))
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Entry(ModelEntry):  # type: ignore[misc]  # django-celery-beat is untyped
    """A periodic task whose message expires when the next one is due."""

    def __init__(self, model: Any, app: Any = None) -> None:
        super().__init__(model, app=app)
        if model.interval is not None:
            every = self.schedule.run_every.total_seconds()
            asked = self.options.get("expires")
            given = asked if isinstance(asked, int | float) else every
            self.options["expires"] = min(given, every)


class LockedScheduler(DatabaseScheduler):  # type: ignore[misc]  # as above
    """The scheduler of `celery -A reprise beat` and of the standalone server."""

    Entry = Entry
    _dirty: set[str]
    _schedule: Any
    # The application's pool of connections sends messages: it gives up on a dead broker after a
    # short while instead of ending beat.
    producer = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = BeatLock()
        self._standby = Standby(self._lock.name)
        self._sender = Sender(self._send)
        self._holds = False
        self._looked = 0.0
        kwargs["max_interval"] = kwargs.get("max_interval") or MAX_INTERVAL
        super().__init__(*args, **{**kwargs, "lazy": True})
        # Celery's finalizer would write again at exit, after `close`, without the lock and perhaps
        # without a database.
        self._finalize.cancel()

    def adjust(self, n: Any, drift: float = 0.0) -> Any:
        """Return when an entry is due, as it says.

        Celery comes 10 ms early, and then asks the entry again and again until it is due: half of
        the processor time of an idle server.
        """
        return super().adjust(n, drift)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Do one step if this beat holds the lock. Return the seconds until the next one."""
        held, self._holds = self._holds, self._lock.hold()
        if not self._holds:
            self._standby.rest()
            if held:
                logger.warning("beat: lost the lock; waiting")
            return WAIT_SECONDS
        try:
            if not held:
                logger.info("beat: got the lock")
                self._begin()
            entries: dict[str, Any] = self._schedule or {}
            self._standby.schedule({each.task: each.name for each in entries.values()})
            pause: float = super().tick(*args, **kwargs)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("beat: %s", _in_a_line(error))
            close_old_connections()
            self._forget_schedule()
            return WAIT_SECONDS
        return pause

    def _begin(self) -> None:
        # Another beat may have changed the rows meanwhile.
        self._forget_schedule()
        self.setup_schedule()

    def _forget_schedule(self) -> None:
        self._dirty.clear()
        self._schedule = self._heap = self.old_schedulers = None
        self._initial_read = True

    def schedule_changed(self) -> bool:
        """Return whether the schedule changed; asks the database every 5 s, not at every tick."""
        if time.monotonic() < self._looked + MAX_INTERVAL:
            return False
        self._looked = time.monotonic()
        changed: bool = super().schedule_changed()
        return changed

    def apply_entry(self, entry: Any, producer: Any = None) -> None:  # noqa: ARG002  # Celery's signature
        """Send a due task's message; if that fails, the next interval sends again."""
        self._standby.want(entry.task)
        self._sender.put(entry)
        # The last run times are saved from time to time, as Celery does after each message.
        self._tasks_since_sync += 1
        if self.should_sync():
            self._do_sync()

    def sync(self) -> None:
        """Save the last run times; log a failure in one line, and try again next time.

        django-celery-beat's own method logs a traceback and forgets the entry that failed.
        """
        waiting, self._dirty = self._dirty, set()
        try:
            close_old_connections()
            while waiting:
                name = next(iter(waiting))
                # An entry that was deleted meanwhile has nothing to save.
                with suppress(KeyError, TypeError, ObjectDoesNotExist):
                    self._schedule[name].save()
                waiting.discard(name)
        except (DatabaseError, InterfaceError) as error:
            self._dirty |= waiting
            logger.warning("beat: cannot store the last run times: %s", _in_a_line(error))
            close_old_connections()

    def _send(self, entry: Any) -> None:
        """Send a message; called in the sender's thread."""
        options = {"retry_policy": ONCE_MORE, **entry.options}
        task = self.app.tasks.get(entry.task)
        try:
            if task is None:
                self.app.send_task(entry.task, entry.args, entry.kwargs, **options)
            else:
                task.apply_async(entry.args, entry.kwargs, **options)
        except Exception as error:  # noqa: BLE001  # any failure of any broker
            logger.warning("beat: %s: %s", entry.name, error)
            self._standby.refused(entry.task, f"{type(error).__name__}: {error}")
        else:
            self._standby.sent(entry.task)

    def close(self) -> None:
        """Save the last run times, and release the lock."""
        self._sender.close()
        self._standby.close()
        if self._holds:
            super().close()
        self._holds = False
        self._lock.release()
