"""A task that kills whoever runs it, for workers that are started with `--include`."""

import os
import signal

from celery import shared_task

NAME = "tests.faults.poison.swallow"


@shared_task(name=NAME, ignore_result=True)
def swallow() -> None:
    """Die at once, as a bug in a C library would have it."""
    os.kill(os.getpid(), signal.SIGKILL)
