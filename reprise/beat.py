"""Beat: django-celery-beat's scheduler, of which one ticks and the others wait."""

import logging
import select
import time
from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError, close_old_connections
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from reprise import heartbeats
from reprise.direct import connect
from sessions_app.locks import AdvisoryLock

logger = logging.getLogger(__name__)

MAX_INTERVAL = 5.0
"""Seconds after which a change in the admin is seen at the latest."""
WAIT_SECONDS = 2.0
"""Between two attempts of a waiting beat."""


class BeatLock:
    """The right to tick: an advisory lock, which is gone with the connection that holds it."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._name = heartbeats.this_process("beat")
        self._seen = 0.0

    def hold(self) -> bool:
        """Whether this beat may tick; takes the lock if nobody has it. Never waits for it."""
        try:
            return self._still_held() or self._take()
        except psycopg.Error as error:
            logger.warning("beat: %s", error)
            self._drop()
            return False

    def _still_held(self) -> bool:
        if self._connection is None:
            return False
        # A live connection has nothing to say: what can be read is its end, and costs no statement.
        readable, _, _ = select.select([self._connection.fileno()], [], [], 0)
        if readable:
            self._connection.execute("SELECT 1")
        if time.monotonic() >= self._seen + heartbeats.INTERVAL_SECONDS:
            heartbeats.beat(self._connection, "beat", self._name)
            self._seen = time.monotonic()
        return True

    def _take(self) -> bool:
        connection = connect("reprise-beat")
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", [AdvisoryLock.BEAT.value])
        if taken.fetchone() != (True,):
            connection.close()
            return False
        self._connection = connection
        # Whoever ticked before does so no more.
        heartbeats.forget(connection, "beat", None)
        heartbeats.beat(connection, "beat", self._name)
        self._seen = time.monotonic()
        return True

    def release(self) -> None:
        """Let another one tick, at once."""
        try:
            if self._connection is not None:
                heartbeats.forget(self._connection, "beat", self._name)
        except psycopg.Error as error:
            logger.info("beat: %s", error)
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Entry(ModelEntry):  # type: ignore[misc]  # django-celery-beat is untyped
    """A periodic task whose message is worth nothing when the next one comes."""

    def __init__(self, model: Any, app: Any = None) -> None:
        super().__init__(model, app=app)
        if model.interval is not None:
            every = self.schedule.run_every.total_seconds()
            asked = self.options.get("expires")
            given = asked if isinstance(asked, int | float) else every
            self.options["expires"] = min(given, every)


class LockedScheduler(DatabaseScheduler):  # type: ignore[misc]  # as above
    """The scheduler of `celery -A reprise beat` and of standalone."""

    Entry = Entry
    # Without one of its own, a tick sends through the application's pool of connections, which
    # gives up on a dead broker after a short while instead of ending beat.
    producer = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = BeatLock()
        self._holds = False
        self._looked = 0.0
        kwargs["max_interval"] = kwargs.get("max_interval") or MAX_INTERVAL
        super().__init__(*args, **{**kwargs, "lazy": True})
        # At exit it would write once more, after `close`, without the lock and perhaps without a
        # database.
        self._finalize.cancel()

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One step, if this is the beat that ticks; seconds until the next one."""
        held, self._holds = self._holds, self._lock.hold()
        if not self._holds:
            if held:
                logger.warning("beat: lost the lock; waiting")
            return WAIT_SECONDS
        try:
            if not held:
                logger.info("beat: has the lock")
                self._begin()
            pause: float = super().tick(*args, **kwargs)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("beat: %s", error)
            close_old_connections()
            self._forget_schedule()
            return WAIT_SECONDS
        return pause

    def _begin(self) -> None:
        # What another beat did meanwhile is in the rows.
        self._forget_schedule()
        self.setup_schedule()

    def _forget_schedule(self) -> None:
        self._dirty.clear()
        self._schedule = self._heap = self.old_schedulers = None
        self._initial_read = True

    def schedule_changed(self) -> bool:
        """As django-celery-beat's, which asks the database at every tick; here every 5 s."""
        if time.monotonic() < self._looked + MAX_INTERVAL:
            return False
        self._looked = time.monotonic()
        changed: bool = super().schedule_changed()
        return changed

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send a due task's message; the next interval makes up for a failure."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001  # any failure of any broker
            logger.warning("beat: %s", error)

    def close(self) -> None:
        """Write down what ran when, and let another beat tick."""
        if self._holds:
            super().close()
        self._holds = False
        self._lock.release()
