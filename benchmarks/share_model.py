"""A model of queues that share a pool, written from the rules of `docs/scheduling.md` alone.

It uses nothing of Reprise. It has one resource, and sessions of one pod whose run time is known:

* free room goes, session by session, to the queue with work for which factor times what it holds is
  lowest. What a queue holds is what its sessions have at that moment;
* in a queue the session that was submitted first is next. While there is no room for it, others of
  the queue that ask for less go before it, and what the queue cannot use goes to the others;
* a session that has waited for `starved_after` and finds no room gets a node reserved: the one that
  is nearest to having room. At most a quarter of the nodes are, but one always may be. The oldest
  session of the queue that is furthest below its share comes first.
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
        self._free = list(nodes)
        self._factors = factors
        self._starved_after = starved_after
        self._lines: dict[str, dict[int, deque[Waiting]]] = {
            queue: defaultdict(deque) for queue in factors
        }
        self._ends: list[tuple[float, int, str, Job]] = []
        self._reserved: dict[int, Waiting] = {}
        self._submitted = 0
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
        gone = {each for line in self._lines[queue].values() for each in line}
        self._reserved = {node: for_ for node, for_ in self._reserved.items() if for_ not in gone}
        self._lines[queue].clear()

    def step(self, now: float) -> None:
        """End what has run for its time, start what has room, and reserve nodes."""
        while self._ends and self._ends[0][0] <= now:
            _, node, queue, job = heapq.heappop(self._ends)
            self._free[node] += job.cpus
            self.held[queue] -= job.cpus
        starved = self._divide(now)
        self._reserve(starved)

    def _divide(self, now: float) -> list[tuple[str, Waiting]]:
        """Start sessions while there is room. Return the starved ones that found none."""
        closed: set[tuple[str, int]] = set()
        starved = []
        while heads := {
            queue: head for queue in self._lines if (head := self._head(queue, closed))
        }:
            queue = min(heads, key=lambda each: (self._level(each), each))
            head = heads[queue]
            node = self._room(head)
            if node is None:
                closed.add((queue, head.job.cpus))
                if now - head.since >= self._starved_after:
                    starved.append((queue, head))
                continue
            self._lines[queue][head.job.cpus].popleft()
            self._reserved = {at: each for at, each in self._reserved.items() if each != head}
            self._free[node] -= head.job.cpus
            self.held[queue] += head.job.cpus
            self.started.setdefault(queue, now)
            heapq.heappush(self._ends, (now + head.job.seconds, node, queue, head.job))
        return starved

    def _level(self, queue: str) -> float:
        return self._factors[queue] * self.held[queue]

    def _head(self, queue: str, closed: set[tuple[str, int]]) -> Waiting | None:
        heads = (
            line[0]
            for cpus, line in self._lines[queue].items()
            if line and (queue, cpus) not in closed
        )
        return min(heads, key=lambda each: each.number, default=None)

    def _room(self, head: Waiting) -> int | None:
        """Return its reserved node or the fullest node, if it has room."""
        fits = [
            node
            for node, free in enumerate(self._free)
            if free >= head.job.cpus and self._reserved.get(node, head) == head
        ]
        own = (node for node in fits if node in self._reserved)
        return next(own, min(fits, key=self._free.__getitem__, default=None))

    def _reserve(self, starved: Sequence[tuple[str, Waiting]]) -> None:
        most = max(1, len(self._free) // 4)
        for _, head in sorted(starved, key=lambda each: (self._level(each[0]), each[1].number)):
            others = [node for node in range(len(self._free)) if node not in self._reserved]
            if head in self._reserved.values() or len(self._reserved) >= most or not others:
                continue
            self._reserved[max(others, key=self._free.__getitem__)] = head


Series = Sequence[tuple[float, Mapping[str, int]]]
"""What each queue holds from each moment on."""


def share(series: Series, queue: str, begin: float, end: float) -> float:
    """Return the mean part of all that is held that a queue holds between two moments."""
    total = weight = 0.0
    moments = [at for at, _ in series[1:]] + [math.inf]
    for (at, held), until in zip(series, moments, strict=True):
        seconds = min(until, end) - max(at, begin)
        whole = sum(held.values())
        if seconds > 0 and whole:
            total += seconds * held.get(queue, 0) / whole
            weight += seconds
    if not weight:
        raise ValueError(f"nothing ran between {begin} and {end}")
    return total / weight
