"""Standby: beat runs the sweeps of deadlines itself while their messages reach no worker.

A sweep is wanted when its time comes. If the broker refuses its message, or no worker has begun it
within `sweep_taken_within` seconds, beat runs all of these sweeps in a thread of its own, again and
again, until a worker begins what is wanted.
"""

import logging
import threading
import time
from collections.abc import Mapping

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from reprise.beat.deadlines import SWEEPS
from reprise.beat.periodic import run_log
from sessions_app.audit.context import TASK, through
from sessions_app.locks import hold_if_free

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0
REASON_LENGTH = 200
_AGES = """
    SELECT task, extract(epoch FROM clock_timestamp() - taken_at)::float8 FROM reprise_sweepstart
"""
_SAY = "UPDATE reprise_heartbeat SET doing = %s WHERE part = 'beat' AND name = %s"
DOING = "runs the sweeps of deadlines itself"
BY_BEAT = "run by beat itself"


class Standby:
    """Decides when beat runs the sweeps of deadlines, and runs them.

    `name` is that of its heartbeat. Methods that other threads call only change its state, and
    never wait.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._sweeps: dict[str, str] = {}
        self._wanted: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        self._not_before = 0.0
        self._reason = ""
        self._closed = False
        self._thread: threading.Thread | None = None

    def schedule(self, sweeps: Mapping[str, str]) -> None:
        """Set the tasks that are on, as task -> name; other sweeps are not wanted."""
        found = {task: name for task, name in sweeps.items() if task in SWEEPS}
        with self._changed:
            self._sweeps = found
            for gone in (self._wanted.keys() | self._refused.keys()) - found.keys():
                self._wanted.pop(gone, None)
                self._refused.pop(gone, None)

    def want(self, task: str) -> None:
        """Note that a sweep is due; keep the earlier time if it is wanted already."""
        if task not in SWEEPS:
            return
        with self._changed:
            self._wanted.setdefault(task, time.monotonic())
            self._start()
            self._changed.notify()

    def sent(self, task: str) -> None:
        """Note that the broker took a message."""
        with self._changed:
            self._refused.pop(task, None)

    def refused(self, task: str, why: str) -> None:
        """Note that the broker refused a message, so that there is no need to wait."""
        if task not in SWEEPS:
            return
        with self._changed:
            self._refused[task] = why
            self._changed.notify()

    def rest(self) -> None:
        """Forget the state, because this beat does not tick."""
        with self._changed:
            self._sweeps, self._wanted, self._refused, self._reason = {}, {}, {}, ""

    def close(self) -> None:
        """End the thread after its current batch."""
        self.rest()
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _start(self) -> None:
        # A thread does not survive a fork, so it starts with the first tick.
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="standby", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and ((pause := self._pause()) is None or pause > 0):
                    self._changed.wait(pause)
                if self._closed:
                    return
            try:
                self._look()
            except (DatabaseError, InterfaceError) as error:
                logger.info("standby: %s", error)
            finally:
                connection.close()
            self._not_before = time.monotonic() + settings.REPRISE["sweep_standby_every"]

    def _pause(self) -> float | None:
        """Return the seconds until the next check; None if nothing is wanted."""
        now = time.monotonic()
        if self._reason:
            return self._not_before - now
        if self._refused:
            return max(0.0, self._not_before - now)
        if not self._wanted:
            return None
        late = min(self._wanted.values()) + settings.REPRISE["sweep_taken_within"]
        return max(late, self._not_before) - now

    def _look(self) -> None:
        reason = self._why()
        if reason != self._reason:
            self._report(reason)
        if reason:
            self._sweep()

    def _why(self) -> str:
        """Return why beat has to run the sweeps now; "" if workers do."""
        asked = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(_AGES)
            ages: dict[str, float] = dict(cursor.fetchall())
        allowed = settings.REPRISE["sweep_taken_within"]
        with self._changed:
            for task, since in list(self._wanted.items()):
                if asked - ages.get(task, float("inf")) >= since:
                    del self._wanted[task]
            if self._refused:
                return f"the broker does not take them: {next(iter(self._refused.values()))}"
            late = [t for t, since in self._wanted.items() if asked >= since + allowed]
            names = ", ".join(f'"{self._sweeps[task]}"' for task in sorted(late))
        return f"no worker has begun {names} within {allowed:g} s" if late else ""

    def _report(self, reason: str) -> None:
        """Write the reason to the heartbeat, which the admin and `/readyz` show, and to the log."""
        began = bool(reason) != bool(self._reason)
        with connection.cursor() as cursor:
            text = f"{DOING}: {reason}"[:REASON_LENGTH].replace("\0", "") if reason else ""
            cursor.execute(_SAY, [text, self._name])
        with self._changed:
            self._reason = reason if self._sweeps else ""
        if began and reason:
            logger.warning("beat %s: %s", DOING, reason)
        elif began:
            logger.warning("beat: the workers run the sweeps of deadlines again")

    def _sweep(self) -> None:
        """Run a batch of each sweep in turn, until none has more work."""
        pending = dict(self._sweeps)
        while pending:
            pending = {
                task: name
                for task, name in pending.items()
                if task in self._sweeps and _batch(task, name)
            }


def _batch(task: str, name: str) -> bool:
    """Run one batch of a sweep unless another beat does. Return whether there may be more."""
    sweep = SWEEPS[task]
    began, clock = time.time(), time.monotonic()
    try:
        with hold_if_free(sweep.lock) as held, through(TASK, task=task):
            done, more = sweep.batch() if held else (0, False)
    except (DatabaseError, InterfaceError):
        raise
    except Exception as error:
        logger.exception("beat: %s failed", name)
        failure = f"{BY_BEAT}: {type(error).__name__}: {error}"
        run_log.record(name, began, time.monotonic() - clock, error=failure)
        return False
    run_log.record(name, began, time.monotonic() - clock, result=f"{BY_BEAT}: {done}")
    return more
