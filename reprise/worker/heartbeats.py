"""Heartbeats of workers and of beat: rows, by the database's clock."""

import logging
import os
import socket
import threading
from typing import Any

import psycopg
from celery import signals

from reprise.postgresql.direct import connect

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
AGAIN_SECONDS = 2.0
"""Seconds until the next try after the database refused a heartbeat."""
DEAD_SECONDS = 75.0
"""Seconds without a heartbeat after which a process counts as dead."""

_BEAT = """
    INSERT INTO reprise_heartbeat (part, name, started_at, seen_at)
    VALUES (%s, %s, clock_timestamp(), clock_timestamp())
    ON CONFLICT (part, name) DO UPDATE SET seen_at = clock_timestamp()
"""
_FORGET = """
    DELETE FROM reprise_heartbeat
    WHERE part = %s AND name = coalesce(%s, name) OR seen_at < clock_timestamp() - interval '1 day'
"""


def this_process(name: str) -> str:
    """Return the name of this process in its heartbeats."""
    return f"{name}@{socket.gethostname()}:{os.getpid()}"


def beat(connection: "psycopg.Connection[Any]", part: str, name: str) -> None:
    """Record that a process is alive."""
    connection.execute(_BEAT, [part, name])


def forget(connection: "psycopg.Connection[Any]", part: str, name: str | None) -> None:
    """Delete the heartbeats of an ended process (None: of the whole part), and all old ones."""
    connection.execute(_FORGET, [part, name])


class WorkerHeart:
    """A thread of the worker that records heartbeats.

    It opens a connection for each heartbeat, so that no process of the worker's pool inherits one.
    """

    def __init__(self, nodename: str) -> None:
        self._name = f"{nodename}:{os.getpid()}"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and delete the heartbeat."""
        self._stopped.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        self._say(forget)
        while True:
            written = self._say(beat)
            if self._stopped.wait(INTERVAL_SECONDS if written else AGAIN_SECONDS):
                break
        self._say(forget)

    def _say(self, what: Any) -> bool:
        try:
            with connect("reprise-worker") as connection:
                what(connection, "worker", self._name)
        except psycopg.Error as error:
            logger.info("cannot store a heartbeat: %s", error)
            return False
        return True


_hearts: list[WorkerHeart] = []


@signals.worker_ready.connect
def _start(sender: Any, **_kwargs: Any) -> None:
    # Celery sends this signal again after each reconnection to the broker.
    if not _hearts:
        _hearts.append(WorkerHeart(sender.hostname))
        _hearts[0].start()


@signals.worker_shutdown.connect
def _stop(**_kwargs: Any) -> None:
    while _hearts:
        _hearts.pop().stop()
