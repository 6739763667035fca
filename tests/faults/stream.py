"""Readers of events, who must get every event once while all else fails."""

import threading
import time
from contextlib import suppress

import psycopg
from reprise_client import RepriseError

from tests.faults.load import JOB_SET
from tests.faults.plant import Plant

PAGE = 2000
EVERY = 0.5
PATIENCE = 180.0
# As the stream of a job set reads it: never past a transaction that is still open.
_NEXT = """
    SELECT e.epoch, e.xid::text, e.id FROM sessions_app_sessionevent e
    WHERE e.job_set = %s AND (e.epoch, e.xid, e.id) > (%s, %s::xid8, %s)
        AND (e.epoch, e.xid) < (reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY e.epoch, e.xid, e.id LIMIT %s
"""


class Follower(threading.Thread):
    """Follows the stream of the job set as people do, over HTTP; `seen` are ids in order."""

    def __init__(self, plant: Plant):
        super().__init__(name="follower", daemon=True)
        self._plant = plant
        self._left = threading.Event()
        self.seen: list[int] = []

    def finish(self) -> None:
        """Wait until it has got as many events as there are; while a web server still runs."""
        until = time.monotonic() + PATIENCE
        while len(self.seen) < self._written() and time.monotonic() < until:
            time.sleep(EVERY)
        self._left.set()

    def _written(self) -> int:
        query = "SELECT count(*) FROM sessions_app_sessionevent WHERE job_set = %s"
        with self._plant.connect() as connection:
            (count,) = connection.execute(query, [JOB_SET]).fetchone() or (0,)
        return int(count)

    def run(self) -> None:
        place: str | None = None
        with self._plant.client() as client:
            while not self._left.wait(EVERY):
                # Until the first session is submitted there is nothing to follow.
                with suppress(RepriseError):
                    for event in client.follow_job_set(JOB_SET, after=place):
                        self.seen.append(int(event.id))
                        place = event.cursor


class StreamReader(threading.Thread):
    """Reads on from its cursor, across every cut of its connection; `seen` are ids in order."""

    def __init__(self, plant: Plant):
        super().__init__(name="stream", daemon=True)
        self._plant = plant
        self._cursor = (0, "0", 0)
        self._finished = threading.Event()
        self.seen: list[int] = []

    def finish(self) -> None:
        """Read what is left, and end."""
        self._finished.set()
        self.join()

    def run(self) -> None:
        finished = False
        while not finished:
            finished = self._finished.wait(EVERY)
            with suppress(psycopg.Error), self._plant.connect() as connection:
                while self._read(connection):
                    pass

    def _read(self, connection: "psycopg.Connection[tuple[int, str, int]]") -> bool:
        rows = connection.execute(_NEXT, [JOB_SET, *self._cursor, PAGE]).fetchall()
        self.seen += [row[2] for row in rows]
        if rows:
            self._cursor = rows[-1]
        return len(rows) == PAGE
