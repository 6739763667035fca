"""Processes with the clients of `settle_client.py`, which settle and dispatch in turns."""

import multiprocessing
from collections.abc import Sequence
from typing import Any, NamedTuple, Self
from uuid import UUID

from benchmarks.settle_client import DEADLINE_SECONDS, END, Share, Timing, clients, warm_sessions
from sessions_app.services.chains.settle import End

PROCESSES = 4


class Measured(NamedTuple):
    """Sessions a second, and the seconds that clients spent in settle and in dispatch on each.

    `cpu` is the seconds of CPU that they and their backends used for each.
    """

    rate: float
    settle: float
    dispatch: float
    cpu: float


class Workers:
    """Clients that settle and dispatch sessions in batches of a `size`, after this end of runs.

    Each gets as many sessions as the others. The first ones warm it up, and count in no turn.
    """

    def __init__(
        self, url: str, ids: Sequence[UUID], size: int, number: int, *, turns: int, ended: End = END
    ):
        warm = warm_sessions(size)
        rest = ids[number * warm :]
        self._of_turn = len(rest) // turns
        slices = [rest[turn * self._of_turn :][: self._of_turn] for turn in range(turns)]
        shares = [
            Share(ids[at * warm :][:warm], [each[at::number] for each in slices])
            for at in range(number)
        ]
        # Clients are forked from a process that has imported everything, and has no connection.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([clients.__module__])
        count = min(number, PROCESSES)
        self._number = number
        self._barrier = context.Barrier(count + 1, timeout=DEADLINE_SECONDS)
        self._timings: multiprocessing.Queue[Timing] = context.Queue()
        self._processes = [
            context.Process(
                target=clients,
                args=(url, shares[at::count], size, self._barrier, self._timings, ended),
            )
            for at in range(count)
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        self._barrier.wait()
        return self

    def __exit__(self, *_raised: object) -> None:
        for process in self._processes:
            process.join(DEADLINE_SECONDS)

    def turn(self) -> Measured:
        """Let all clients, which are ready, do their next share. Return its figures."""
        self._barrier.wait()
        times = [self._timings.get(timeout=DEADLINE_SECONDS) for _ in range(self._number)]
        self._barrier.wait()
        seconds = max(each.ended for each in times) - min(each.began for each in times)
        spent: list[Any] = [(each.settle, each.dispatch, each.cpu) for each in times]
        sums = (sum(each) / self._of_turn for each in zip(*spent, strict=True))
        return Measured(self._of_turn / seconds, *sums)
