"""A client of `settle.py`: one process that settles and dispatches its share of sessions.

The server of `multiprocessing` that forks clients imports this module once, with all of Django, so
that 32 clients start in a moment.
"""

import os
import time
from typing import Any
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import django

django.setup()

from retry.evidence.termination import Termination  # noqa: E402  # they need Django
from sessions_app.services.chains.dispatch import next_due, retries_dispatch  # noqa: E402  # they need Django
from sessions_app.services.chains.settle import End, sessions_settle  # noqa: E402  # they need Django

WARM_BATCHES = 5
"""After three, psycopg has prepared every statement."""
END = End(Termination(exit_code=3, message="boom", node="node-1"), columns={"report_seq": 3})


def client(url: str, warm: list[UUID], ids: list[UUID], size: int, barrier: Any, told: Any) -> None:
    """Settle and dispatch the warm ones, wait for the others, do the share, and tell the times."""
    from reprise.standalone.server import use_database

    use_database(url)
    _settle(warm, max(1, len(warm) // WARM_BATCHES))
    barrier.wait()  # all are warm
    barrier.wait()  # the checkpoint is written
    began = time.monotonic()
    _settle(ids, size)
    told.put((began, time.monotonic()))


def _settle(ids: list[UUID], size: int) -> None:
    for start in range(0, len(ids), size):
        sessions_settle(dict.fromkeys(ids[start : start + size], END))
        retries_dispatch(size)


def dispatch_rest(size: int) -> float:
    """Dispatch what is not due yet when the clients end. Return the seconds that it took."""
    began = time.monotonic()
    while (left := next_due()) is not None:
        if left <= 0:
            retries_dispatch(size)
    return time.monotonic() - began
