"""procrastinate: jobs are rows; each is fetched, run and finished by itself.

python -m benchmarks.peers.procrastinate_peer URL CONCURRENCY      is one worker
"""

import asyncio
import logging
import sys

import procrastinate
import psycopg

FAILURES = 2
UNFINISHED = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
SUCCEEDED = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
CHUNK = 1_000


class Failure(Exception):
    """The failure of a job."""


def _app(connector: procrastinate.BaseConnector) -> procrastinate.App:
    app = procrastinate.App(connector=connector)

    @app.task(name="flaky", retry=procrastinate.RetryStrategy(max_attempts=5), pass_context=True)
    async def flaky(context: procrastinate.JobContext) -> None:
        if context.job.attempts < FAILURES:
            raise Failure

    return app


def prepare(url: str) -> None:
    """Create the tables, or empty them."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
        if row and row[0]:
            connection.execute("TRUNCATE procrastinate_jobs CASCADE")
            return
    with (app := _app(procrastinate.SyncPsycopgConnector(conninfo=url))).open():
        app.schema_manager.apply_schema()


def submit(url: str, jobs: int) -> None:
    """Enqueue this number of jobs."""
    with (app := _app(procrastinate.SyncPsycopgConnector(conninfo=url))).open():
        for start in range(0, jobs, CHUNK):
            app.configure_task("flaky").batch_defer(*[{}] * min(CHUNK, jobs - start))


async def _work(url: str, concurrency: int) -> None:
    pool = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=concurrency + 2)
    async with (app := _app(pool)).open_async():
        print("ready", flush=True)
        await app.run_worker_async(concurrency=concurrency, fetch_job_polling_interval=0.5)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(_work(sys.argv[1], int(sys.argv[2])))
