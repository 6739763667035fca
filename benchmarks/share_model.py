"""A model of queues that share a pool, written from the rules of `docs/scheduling.md` alone.

It uses nothing of Reprise. It has one resource, and sessions of one pod whose run time is known:

* free room goes, session by session, to the queue with work for which factor times what it holds is
  lowest. What a queue holds is what its sessions have at that moment;
* in a queue the session that was submitted first is next. While there is no room for it, others of
  the queue that ask for less go before it, and what the queue cannot use goes to the others;
* a session that has waited for `starved_after` and finds no room gets room on a node reserved, on
  the one that has most, if its queue is below its share: the part, by the inverses of the factors,
  of all that the queues with work hold. What is kept for a queue counts as its own. A queue that
  holds nothing is below its share, and so is one that is alone. Others get what the node has beside
  it. At most a quarter of the pool is reserved, but room for one session always may be. The oldest
  session of the queue that is furthest below its share comes first. Room that is kept is used
  before anything else.
"""

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

SPREAD = 0.3
"""How much shorter some sessions run, so that their ends spread out."""
MOST_RESERVED = 0.25
"""The part of the pool that may be reserved."""
ROUNDING = 1e-6


class Job(NamedTuple):
    """A session before it is submitted: its CPUs, and how long it runs."""

    cpus: int
    seconds: float


def jobs(queue: str, sizes: Mapping[int, int], run: float) -> Iterator[Job]:
    """Yield the sessions of a queue, always the same: sizes by their weights, `run` seconds at
    most."""
    random = Random(queue)  # repeatable on purpose
    while True:
        (cpus,) = random.choices(tuple(sizes), tuple(sizes.values()))
        yield Job(cpus, run * (1 - SPREAD * random.random()))


@dataclass(frozen=True)
class Waiting:
    """A session that waits: its number over all queues, and when it came."""

    number: int
    since: float
    job: Job


class Model:
    """The pool. `nodes` are the CPUs of each node, `factors` those of the queues."""

    def __init__(self, nodes: Sequence[int], factors: Mapping[str, float], starved_after: float):
        self._nodes = tuple(nodes)
        self._free = list(nodes)
        self._factors = factors
        self._starved_after = starved_after
        self._lines: dict[str, dict[int, deque[Waiting]]] = {
            queue: defaultdict(deque) for queue in factors
        }
        self._ends: list[tuple[float, int, str, Job]] = []
        self._reserved: dict[int, tuple[str, Waiting]] = {}
        self._submitted = 0
        self._takes = 0.0
        self.held: Counter[str] = Counter()
        """The CPUs of what runs, by queue."""
        self.started: dict[str, float] = {}
        """When the first session of each queue started."""

    def waiting(self, queue: str) -> int:
        """Return the number of sessions of a queue that wait."""
        return sum(map(len, self._lines[queue].values()))

    def submit(self, queue: str, job: Job, now: float) -> None:
        """Add a session to a queue."""
        self._submitted += 1
        self._lines[queue][job.cpus].append(Waiting(self._submitted, now, job))

    def leave(self, queue: str) -> None:
        """Take back all sessions of a queue that wait."""
        self._reserved = {at: each for at, each in self._reserved.items() if each[0] != queue}
        self._lines[queue].clear()

    def step(self, now: float, takes: float = 0.0) -> None:
        """End what has run for its time, start what has room, and reserve room.

        Whoever plays the step `takes` so many seconds for it: then runs begin at its end.
        """
        self._takes = takes
        while self._ends and self._ends[0][0] <= now:
            _, node, queue, job = heapq.heappop(self._ends)
            self._free[node] += job.cpus
            self.held[queue] -= job.cpus
        for node, (queue, taker) in list(self._reserved.items()):
            if self._free[node] >= taker.job.cpus:
                self._start(queue, taker, node, now)
        self._reserve(self._divide(now))

    def _divide(self, now: float) -> list[tuple[str, Waiting]]:
        """Start sessions while there is room. Return the starved ones that found none."""
        closed: set[tuple[str, int]] = set()
        starved = []
        while heads := {
            queue: head for queue in self._lines if (head := self._head(queue, closed))
        }:
            queue = min(heads, key=lambda each: (self._factors[each] * self.held[each], each))
            head = heads[queue]
            node = self._room(head)
            if node is not None:
                self._start(queue, head, node, now)
                continue
            closed.add((queue, head.job.cpus))
            if now - head.since >= self._starved_after:
                starved.append((queue, head))
        return starved

    def _start(self, queue: str, session: Waiting, node: int, now: float) -> None:
        self._lines[queue][session.job.cpus].remove(session)
        self._reserved = {at: each for at, each in self._reserved.items() if each[1] != session}
        self._free[node] -= session.job.cpus
        self.held[queue] += session.job.cpus
        self.started.setdefault(queue, now)
        end = now + self._takes + session.job.seconds
        heapq.heappush(self._ends, (end, node, queue, session.job))

    def _head(self, queue: str, closed: set[tuple[str, int]]) -> Waiting | None:
        heads = (
            line[0]
            for cpus, line in self._lines[queue].items()
            if line and (queue, cpus) not in closed
        )
        return min(heads, key=lambda each: each.number, default=None)

    def _room(self, head: Waiting) -> int | None:
        """Return the fullest node with room beside what is reserved on it."""
        kept = {node: taker.job.cpus for node, (_, taker) in self._reserved.items()}
        fits = (
            node
            for node, free in enumerate(self._free)
            if free - kept.get(node, 0) >= head.job.cpus
        )
        return min(fits, key=self._free.__getitem__, default=None)

    def _shares(self) -> dict[str, float]:
        """Return the shares of the queues with work, in CPUs: of all that they hold together."""
        weights = {queue: 1 / self._factors[queue] for queue in self._lines if self.waiting(queue)}
        together = sum(self.held[queue] for queue in weights)
        return {queue: together * each / sum(weights.values()) for queue, each in weights.items()}

    def _reserve(self, starved: Sequence[tuple[str, Waiting]]) -> None:
        pool, shares = sum(self._nodes), self._shares()
        kept: Counter[str] = Counter()
        for queue, taker in self._reserved.values():
            kept[queue] += taker.job.cpus
        with_room = {taker for _, taker in self._reserved.values()}

        def above(queue: str) -> float:
            return self.held[queue] + kept[queue] - shares[queue]

        def below_share(queue: str) -> bool:
            alone_or_empty = len(shares) == 1 or not self.held[queue] + kept[queue]
            return alone_or_empty or above(queue) < -ROUNDING

        for queue, head in sorted(starved, key=lambda each: (above(each[0]), each[1].number)):
            others = [node for node in range(len(self._free)) if node not in self._reserved]
            if head in with_room or not others or not below_share(queue):
                continue
            if kept and kept.total() + head.job.cpus > pool * MOST_RESERVED:
                return
            self._reserved[max(others, key=self._free.__getitem__)] = queue, head
            kept[queue] += head.job.cpus


Series = Sequence[tuple[float, Mapping[str, int]]]
"""What each queue holds from each moment on."""


def filled(series: Series, begin: float, end: float) -> float:
    """Return the mean amount of all that is held between two moments."""
    return sum(seconds * sum(held.values()) for seconds, held in _within(series, begin, end)) / (
        end - begin
    )


def share(series: Series, queue: str, begin: float, end: float) -> float:
    """Return the mean part of all that is held that a queue holds between two moments."""
    total = weight = 0.0
    for seconds, held in _within(series, begin, end):
        if whole := sum(held.values()):
            total += seconds * held.get(queue, 0) / whole
            weight += seconds
    if not weight:
        raise ValueError(f"nothing ran between {begin} and {end}")
    return total / weight


def _within(series: Series, begin: float, end: float) -> Iterator[tuple[float, Mapping[str, int]]]:
    """Yield what is held between two moments, with the seconds for which it is."""
    moments = [at for at, _ in series[1:]] + [math.inf]
    for (at, held), until in zip(series, moments, strict=True):
        if (seconds := min(until, end) - max(at, begin)) > 0:
            yield seconds, held
