"""The clients of `settle.py`, which settle and dispatch their shares of sessions.

The server of `multiprocessing` that forks clients imports this module once, with all of Django, so
that 32 clients start in a moment.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from benchmarks.processes import precise_seconds

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


class Share(NamedTuple):
    """The sessions of one client: those that warm it up, and those of each turn."""

    warm: Sequence[UUID]
    turns: Sequence[Sequence[UUID]]


class Spent(NamedTuple):
    """Seconds that a client spent in settle and in dispatch."""

    settle: float
    dispatch: float


class Timing(NamedTuple):
    """A turn of a client: when it began and ended, by the monotonic clock, and what it cost.

    `cpu` is the seconds of CPU that the client and its backend of PostgreSQL used.
    """

    began: float
    ended: float
    settle: float
    dispatch: float
    cpu: float


def clients(
    url: str, shares: list[Share], size: int, barrier: Any, timings: Any, ended: End
) -> None:
    """Run a process with a client for each share. Send the `Timing` of each turn of each.

    As in a web process, clients of one process are threads with a connection each. All wait at the
    barrier once they are warm, and before and after each turn.
    """
    from django.db import connection, connections

    from reprise.standalone.configuration import use_database

    use_database(url)

    ready = threading.Barrier(len(shares), barrier.wait, DEADLINE_SECONDS)

    def client(share: Share) -> None:
        settle(share.warm, max(1, len(share.warm) // WARM_BATCHES), ended)
        backend = connection.connection.info.backend_pid
        ready.wait()
        for ids in share.turns:
            ready.wait()
            began, cpu = time.monotonic(), _cpu_seconds(backend)
            spent = settle(ids, size, ended)
            used = _cpu_seconds(backend) - cpu
            timings.put(Timing(began, time.monotonic(), *spent, used))
            ready.wait()
        connections.close_all()

    first, *others = shares
    threads = [threading.Thread(target=client, args=(share,), daemon=True) for share in others]
    for thread in threads:
        thread.start()
    client(first)
    for thread in threads:
        thread.join()


def _cpu_seconds(backend: int) -> float:
    """Return the seconds of CPU that this thread and a process have used."""
    return time.thread_time() + precise_seconds(backend)


def settle(ids: Sequence[UUID], size: int, ended: End) -> Spent:
    """Settle sessions, whose runs ended in this way, and dispatch them, in batches."""
    settling = dispatching = 0.0
    for start in range(0, len(ids), size):
        began = time.monotonic()
        sessions_settle(dict.fromkeys(ids[start : start + size], ended))
        settled = time.monotonic()
        retries_dispatch(size)
        settling += settled - began
        dispatching += time.monotonic() - settled
    return Spent(settling, dispatching + dispatch_rest(size))


def dispatch_rest(size: int) -> float:
    """Dispatch what is due or will be so. Return the seconds that it took.

    What another client has claimed is left to it.
    """
    began = time.monotonic()
    while (left := next_due()) is not None:
        if left <= 0 and not retries_dispatch(size).claimed:
            break
    return time.monotonic() - began
