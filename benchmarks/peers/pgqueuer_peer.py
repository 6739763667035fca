"""pgqueuer: jobs are rows. They are fetched in batches, and their ends are written in batches.

A retry takes a statement of its own, so a worker has several connections.

python -m benchmarks.peers.pgqueuer_peer URL BATCH                 is one worker
"""

import asyncio
import logging
import signal
import sys
from datetime import timedelta
from typing import Any

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

FAILURES = 2
UNFINISHED = "SELECT EXISTS (SELECT FROM pgqueuer)"
SUCCEEDED = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
CHUNK = 1_000
WRITERS = 8
"""Connections of one worker. With one it is half as fast, with more than these no faster."""
POLL = timedelta(milliseconds=10)
"""Pause before an empty queue is polled again while jobs are on their way."""


def prepare(url: str) -> None:
    """Create the tables, or empty them."""

    async def install() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            queries = Queries(PsycopgDriver(connection))
            if not await queries.has_table("pgqueuer"):
                await queries.install()
            await connection.execute("TRUNCATE pgqueuer, pgqueuer_log")

    asyncio.run(install())


def submit(url: str, jobs: int) -> None:
    """Enqueue this number of jobs."""

    async def enqueue() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            queries = Queries(PsycopgDriver(connection))
            for start in range(0, jobs, CHUNK):
                count = min(CHUNK, jobs - start)
                await queries.enqueue(["flaky"] * count, [b""] * count, [0] * count)

    asyncio.run(enqueue())


class _Driver(PsycopgDriver):
    """Listens on a separate connection.

    On the working connection each statement would wait for the wait for notifications to end.
    """

    def __init__(
        self, listening: "psycopg.AsyncConnection[Any]", working: AsyncConnectionPool[Any]
    ):
        super().__init__(listening)
        self._working = working

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        async with self._working.connection() as connection:
            cursor = psycopg.AsyncRawCursor(connection, row_factory=dict_row)
            await cursor.execute(query, args or None)
            return await cursor.fetchall()

    async def execute(self, query: str, *args: object) -> str:
        async with self._working.connection() as connection:
            cursor = psycopg.AsyncRawCursor(connection)
            await cursor.execute(query, args or None)
            return cursor.statusmessage or ""


async def _work(url: str, batch: int) -> None:
    options = {"autocommit": True}
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listening,
        AsyncConnectionPool(url, min_size=WRITERS, max_size=WRITERS, kwargs=options) as working,
    ):
        queuer = PgQueuer(_Driver(listening, working))
        queuer.qm.min_dequeue_poll_interval = POLL

        @queuer.entrypoint("flaky")
        async def flaky(job: Job) -> None:
            if job.attempts < FAILURES:
                raise RetryRequested(delay=timedelta(0))

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, queuer.shutdown.set)
        print("ready", flush=True)
        await queuer.run(batch_size=batch, dequeue_timeout=timedelta(seconds=0.1))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(_work(sys.argv[1], int(sys.argv[2])))
