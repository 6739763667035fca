"""The clients of `settle.py`, which settle and dispatch their shares of sessions.

The server of `multiprocessing` that forks clients imports this module once, with all of Django, so
that 32 clients start in a moment.
"""

import os
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import django

django.setup()

from reprise import garbage  # noqa: E402  # they need Django
from retry.evidence.termination import Termination  # noqa: E402  # they need Django
from sessions_app.services.chains.dispatch import next_due, retries_dispatch  # noqa: E402  # they need Django
from sessions_app.services.chains.settle import End, sessions_settle  # noqa: E402  # they need Django

garbage.freeze()  # as every server process and worker does

WARM_BATCHES = 10
"""After three, psycopg has prepared every statement; five more, and PostgreSQL keeps its plans."""
DEADLINE_SECONDS = 120.0
MOST_WARM = 5
"""Sessions in a batch of those."""
# Some 16 KiB of output, as an executor sends it.
LOG_TAIL = "".join(
    [f"step {line:05} loss={1 / (line + 1):.6f} lr=3.0e-4 took 0.41 s\n" for line in range(330)]
) + (
    "Traceback (most recent call last):\n"
    '  File "/app/train.py", line 412, in <module>\n    main()\n'
    '  File "/app/data.py", line 97, in load\n    raise ValueError(row)\n'
    "ValueError: row 4711 of s3://bucket/run-8d2f has no label\n"
)
END = End(Termination(exit_code=3, message="boom", node="node-1"), columns={"report_seq": 3})
# Without a message, as of most failures: the signature comes from the output.
END_WITH_OUTPUT = replace(END, termination=replace(END.termination, message=""), log_tail=LOG_TAIL)


def end_with_progress(attempt: int) -> End:
    """Return the end of an attempt with output that told how far it came."""
    step = 10.0 * (attempt + 1)
    told = {"step": step, "of": 100, "note": "", "best": step, "rate": 2.5}
    saved = {"checkpoint": "s3://bucket/run/last.pt", "checkpoint_step": step}
    return replace(END_WITH_OUTPUT, progress={**told, **saved})


def warm_sessions(size: int) -> int:
    """Return how many sessions warm a client up."""
    return WARM_BATCHES * min(size, MOST_WARM)


@dataclass(frozen=True)
class Share:
    """The sessions of one client; the `warm` ones come before the clock."""

    warm: list[UUID]
    ids: list[UUID]


class Spent(NamedTuple):
    """Seconds that a client spent in settle and in dispatch."""

    settle: float
    dispatch: float


class Timing(NamedTuple):
    """When a client began and ended, by the monotonic clock, and how it spent the time."""

    began: float
    ended: float
    spent: Spent


def clients(
    url: str, shares: list[Share], size: int, barrier: Any, timings: Any, ended: End
) -> None:
    """Run a process with a client for each share. Send the `Timing` of each.

    As in a web process, clients of one process are threads with a connection each.
    """
    from django.db import connections

    from reprise.standalone.configuration import use_database

    use_database(url)

    def begin() -> None:
        barrier.wait()  # all are warm
        barrier.wait()  # the checkpoint is written

    warm = threading.Barrier(len(shares), begin, DEADLINE_SECONDS)

    def client(share: Share) -> None:
        settle(share.warm, max(1, len(share.warm) // WARM_BATCHES), ended)
        warm.wait()
        began = time.monotonic()
        spent = settle(share.ids, size, ended)
        timings.put(Timing(began, time.monotonic(), spent))
        connections.close_all()

    first, *others = shares
    threads = [threading.Thread(target=client, args=(share,), daemon=True) for share in others]
    for thread in threads:
        thread.start()
    client(first)
    for thread in threads:
        thread.join()


def settle(ids: list[UUID], size: int, ended: End) -> Spent:
    """Settle sessions, whose runs ended in this way, and dispatch them, in batches."""
    settling = dispatching = 0.0
    for start in range(0, len(ids), size):
        began = time.monotonic()
        sessions_settle(dict.fromkeys(ids[start : start + size], ended))
        settled = time.monotonic()
        retries_dispatch(size)
        settling += settled - began
        dispatching += time.monotonic() - settled
    return Spent(settling, dispatching)


def dispatch_rest(size: int) -> float:
    """Dispatch what is not due yet when the clients end. Return the seconds that it took."""
    began = time.monotonic()
    while (left := next_due()) is not None:
        if left <= 0:
            retries_dispatch(size)
    return time.monotonic() - began
