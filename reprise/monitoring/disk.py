"""Checks whether the database can write: on a full disk, reads still work."""

import logging
import os
import threading
import time
from typing import Any

import psycopg
from psycopg.errors import DiskFull, ReadOnlySqlTransaction

from reprise.postgresql.direct import brief
from reprise.worker import heartbeats
from sessions_app.instruments import WRITES_REFUSED

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
WRITE_SECONDS = 5.0
STOP_SECONDS = 2.0
PART = "disk"

_SMALL = "SET work_mem = '64kB'"
# Writes some 280 kB, too much for memory, into a new temporary file. A single row would be written
# on the fullest of disks, too: its table and the WAL have free room already.
_SPILL = "SELECT count(*) FROM generate_series(1, 20000)"


def connect() -> "psycopg.Connection[Any]":
    """Return a connection for `write_refused`."""
    return brief("reprise-disk", WRITE_SECONDS)


def write_refused(connection: "psycopg.Connection[Any]", name: str) -> str:
    """Try to write, as `name`; return why the database refuses it, "" if it does not.

    Raises `psycopg.Error` if the database does not answer.
    """
    try:
        heartbeats.beat(connection, PART, name)
        connection.execute(_SMALL)
        connection.execute(_SPILL)
    except (DiskFull, ReadOnlySqlTransaction) as error:
        return str(error).splitlines()[0]
    return ""


class DiskWatch:
    """Tries a write every `PERIOD_SECONDS` in a thread of its own.

    Its connection stays open: a new one each time would cost four times as much.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._tried = float("-inf")
        self._refused: str | None = None
        self._last_logged = ""

    def start(self, program: str) -> None:
        """Start the thread unless it runs; `program` names this kind of process.

        To be called in the process that is watched: a thread does not survive a fork.
        """
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._stopped.clear()
                self._thread = threading.Thread(
                    target=self._run,
                    args=(heartbeats.this_process(program),),
                    name="disk",
                    daemon=True,
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def refused(self, until: float) -> str | None:
        """Return why the last write was refused, "" if it was not, None if it is not known.

        Waits for the first result until `until` (monotonic) at most.
        """
        with self._changed:
            left = max(0.0, until - time.monotonic())
            self._changed.wait_for(self._is_fresh, left)
            return self._refused if self._is_fresh() else None

    def leave(self) -> None:
        """Leave the connection to the parent, in a process that was just forked."""
        if self._connection is not None and not self._connection.closed:
            # A proper end would send a goodbye on the parent's socket.
            os.close(self._connection.fileno())

    def _is_fresh(self) -> bool:
        return time.monotonic() < self._tried + PERIOD_SECONDS + WRITE_SECONDS

    def _run(self, name: str) -> None:
        while not self._stopped.is_set():
            self._note(self._try(name))
            self._stopped.wait(PERIOD_SECONDS)
        self._drop()

    def _try(self, name: str) -> str | None:
        held = self._connection is not None
        try:
            self._connection = self._connection or connect()
            return write_refused(self._connection, name)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next try may do better
            self._drop()
            if held:  # perhaps only the connection has ended, as in a restart
                return self._try(name)
            if self._refused is not None:
                logger.info("cannot find out whether the database can write: %s", error)
            return None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _note(self, refused: str | None) -> None:
        with self._changed:
            self._refused, self._tried = refused, time.monotonic()
            self._changed.notify_all()
        WRITES_REFUSED.set(bool(refused))
        if refused and not self._last_logged:
            logger.error("the database cannot write: %s", refused)
        elif self._last_logged and refused == "":
            logger.warning("the database can write again")
        if refused is not None:
            self._last_logged = refused


watch = DiskWatch()
"""The watch of this process."""
os.register_at_fork(after_in_child=watch.leave)
