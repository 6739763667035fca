"""Checks whether the database can write: on a full disk, reads still work."""

import logging
import threading
import time

import psycopg
from psycopg.errors import DiskFull, ReadOnlySqlTransaction

from reprise.postgresql.direct import brief
from reprise.worker import heartbeats

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
WRITE_SECONDS = 5.0
IDLE_SECONDS = 60.0
"""Seconds after the last question until the checks stop."""
PART = "web"

_SMALL = "SET work_mem = '64kB'"
# Writes some 280 kB, too much for memory, into a new temporary file. A single row would be written
# on the fullest of disks, too: its table and the WAL have free room already.
_SPILL = "SELECT count(*) FROM generate_series(1, 20000)"


def write_refused() -> str:
    """Try to write; return why the database refuses it, "" if it does not.

    Raises `psycopg.Error` if the database does not answer.
    """
    try:
        with brief("reprise-disk", WRITE_SECONDS) as connection:
            heartbeats.beat(connection, PART, heartbeats.this_process(PART))
            connection.execute(_SMALL)
            connection.execute(_SPILL)
    except (DiskFull, ReadOnlySqlTransaction) as error:
        return str(error).splitlines()[0]
    return ""


class DiskWatch:
    """Tries a write every `PERIOD_SECONDS` in a thread of its own, as long as somebody asks."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = False
        self._asked = float("-inf")
        self._tried = float("-inf")
        self._refused: str | None = None
        self._last_logged = ""

    def start(self) -> None:
        """Start the thread unless it runs."""
        with self._changed:
            self._asked = time.monotonic()
            if not self._running:
                # Started here, not with the process: a thread does not survive a fork.
                self._running = True
                threading.Thread(target=self._run, name="disk", daemon=True).start()

    def refused(self, until: float) -> str | None:
        """Return why the last write was refused, "" if it was not, None if it is not known.

        Waits for the first result until `until` (monotonic) at most.
        """
        with self._changed:
            left = max(0.0, until - time.monotonic())
            self._changed.wait_for(self._is_fresh, left)
            return self._refused if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        return time.monotonic() < self._tried + PERIOD_SECONDS + WRITE_SECONDS

    def _run(self) -> None:
        while True:
            refused = self._try()
            with self._changed:
                self._refused, self._tried = refused, time.monotonic()
                self._changed.notify_all()
            if refused is not None:
                self._log_change(refused)
            time.sleep(PERIOD_SECONDS)
            with self._changed:
                if time.monotonic() > self._asked + IDLE_SECONDS:
                    self._running = False
                    return

    def _try(self) -> str | None:
        try:
            return write_refused()
        except psycopg.Error as error:
            logger.info("whether the database can write is not known: %s", error)
            return None

    def _log_change(self, refused: str) -> None:
        if refused and not self._last_logged:
            logger.error("the database cannot write: %s", refused)
        elif self._last_logged and not refused:
            logger.warning("the database can write again")
        self._last_logged = refused
