"""Celery on RabbitMQ with late acknowledgements and automatic retries. No database at all.

Run by `celery -A benchmarks.peers.celery_peer worker`; a worker appends one byte to the file in
`REPRISE_BENCH_DONE` for each job that has succeeded.
"""

import os
from typing import Any

from celery import Celery, Task

FAILURES = 2
QUEUE = "reprise-bench"
BROKER = os.environ.get("BROKER_URL") or "amqp://guest:guest@127.0.0.1:5672//"

app: "Celery[Any]" = Celery("bench", broker=BROKER)
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=True,
    task_ignore_result=True,
    task_publish_retry=False,
    worker_prefetch_multiplier=32,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
)


class Failure(Exception):
    """The failure of a job."""


@app.task(
    bind=True,
    name="flaky",
    autoretry_for=(Failure,),
    max_retries=5,
    default_retry_delay=0,
)
def flaky(self: "Task[Any, Any]") -> None:
    """Fail twice, then record the success."""
    if self.request.retries < FAILURES:
        raise Failure
    with open(os.environ["REPRISE_BENCH_DONE"], "ab", buffering=0) as done:  # noqa: PTH123  # one write
        done.write(b".")


def submit(jobs: int) -> None:
    """Enqueue this number of jobs."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(jobs):
            flaky.apply_async(producer=producer)
