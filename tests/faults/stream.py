"""A reader of the table of events, who must get every event once while all else fails."""

import threading
from contextlib import suppress

import psycopg

from tests.faults.load import JOB_SET
from tests.faults.plant import Plant

PAGE = 2000
EVERY = 0.5
# As the stream of a job set reads it: never past a transaction that is still open.
_NEXT = """
    SELECT e.epoch, e.xid::text, e.id FROM sessions_app_sessionevent e
    WHERE e.job_set = %s AND (e.epoch, e.xid, e.id) > (%s, %s::xid8, %s)
        AND (e.epoch, e.xid) < (reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY e.epoch, e.xid, e.id LIMIT %s
"""


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
