"""Fair share: what a queue costs, how that is remembered, and who gets what is free. Pure.

Costs and sizes are shares of the pool: 0.25 is a quarter of the resource of which most is taken.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heapify, heappop, heappush
from typing import NamedTuple
from uuid import UUID

from podspec.resources import Amounts

FLOOR = 1e-6
"""The lowest current priority: a queue that ran nothing for ages is not better than this."""
_ROUNDING = 1e-9
_NOTHING = Decimal(0)


class Order(NamedTuple):
    """The place of a session in its queue; the smallest is next.

    When its root was submitted, in microseconds: numbers are read faster than times.
    """

    negative_priority: int
    root_submitted_at: int
    id: UUID


def cost(used: Amounts, pool: Amounts) -> float:
    """The dominant share: the largest of used / total over the resources of the pool.

    What the pool does not have costs nothing: nobody else could use it.
    """
    return max(
        (float(value / pool[name]) for name, value in used.items() if pool.get(name)), default=0.0
    )


def current_priority(cost: float, before: float, seconds: float, half_time: float) -> float:
    """The priority that was `before`, `seconds` later, while the queue has cost `cost`.

    After one half time it is half way between the two.
    """
    left = math.pow(2.0, -max(seconds, 0.0) / half_time)
    return max(cost + (before - cost) * left, FLOOR)


def effective_priority(factor: float, current: float) -> float:
    """What queues are compared by; the lowest is the most deserving."""
    return factor * current


@dataclass(slots=True, eq=False)
class Limit:
    """What may still be taken under one limit, of a queue or of several queues together.

    A resource that is not named has no limit; what is over its limit already is negative.
    """

    name: str
    left: Amounts

    def exceeded_by(self, wanted: Amounts) -> str | None:
        """The first resource, by name, of which too little is left; None if there is enough."""
        return next(
            (
                name
                for name, left in sorted(self.left.items())
                if wanted.get(name, _NOTHING) > max(left, _NOTHING)
            ),
            None,
        )

    def take(self, wanted: Amounts) -> None:
        """Book what was given."""
        for name in self.left.keys() & wanted.keys():
            self.left[name] -= wanted[name]


@dataclass(slots=True, eq=False)
class Line:
    """The sessions of one queue that ask for the same, in their order.

    `amounts` and `size` are those of one session. `heads` are the first ones that are not given
    anything yet, as far as they were read; `more` says that others may come behind them.
    """

    key: int
    retry: bool
    amounts: Amounts
    size: float
    heads: deque[Order] = field(default_factory=deque)
    more: bool = True
    closed: str = ""
    """Why none of them can have anything in this round; "" while they can."""

    @property
    def unread(self) -> bool:
        """It has to be read on before it is known who is next."""
        return not self.heads and self.more and not self.closed

    @property
    def ready(self) -> bool:
        """Its next session is known and may be given something."""
        return bool(self.heads) and not self.closed


@dataclass(slots=True, eq=False)
class Claimant:
    """A queue with work. `level` is its current priority, `held` what it holds of this executor,
    and `held_by_retries` what of that its retries hold."""

    queue: int
    factor: float
    level: float
    lines: Sequence[Line]
    limits: Sequence[Limit] = ()
    held: float = 0.0
    held_by_retries: float = 0.0
    given: float = 0.0

    @property
    def priority(self) -> float:
        """Its effective priority with what the round has given it so far."""
        return effective_priority(self.factor, self.level + self.given)

    def next_line(self, retry_share: float) -> Line | None:
        """The line whose head is next: in order, but while fresh sessions wait, retries do not
        get more than their share of what the queue holds."""
        ready = [line for line in self.lines if line.ready]
        if not ready:
            return None
        line = min(ready, key=lambda each: each.heads[0])
        fresh = [each for each in ready if not each.retry]
        if line.retry and fresh and self._retries_have_their_share(line, retry_share):
            return min(fresh, key=lambda each: each.heads[0])
        return line

    def _retries_have_their_share(self, line: Line, retry_share: float) -> bool:
        whole = self.held + line.size
        return self.held_by_retries >= retry_share * whole - _ROUNDING * whole

    def take(self, line: Line) -> None:
        """Give the head of a line what it asks for."""
        line.heads.popleft()
        self.given += line.size
        self.held += line.size
        self.held_by_retries += line.size if line.retry else 0.0
        for limit in self.limits:
            limit.take(line.amounts)


class Grant(NamedTuple):
    """The next session of a line of a queue."""

    claimant: Claimant
    line: Line


class _Water:
    """The level to which what was given would fill all queues alike, if sessions were sand."""

    def __init__(self, claimants: Sequence[Claimant]):
        self._dry = sorted(((each.priority, each.queue, each) for each in claimants), reverse=True)
        self._inverses = self._levels = self._given = 0.0
        self._wet: set[int] = set()
        self._gone: set[int] = set()
        self._flood()

    @property
    def level(self) -> float:
        """An effective priority: the one that all queues have that it has reached."""
        return (self._given + self._levels) / self._inverses if self._wet else 0.0

    def rise(self, size: float) -> None:
        """So much more was given; it may reach more queues."""
        self._given += size
        self._flood()

    def drop(self, claimant: Claimant) -> None:
        """A queue gets no more; what it got is out of the reckoning."""
        self._gone.add(claimant.queue)
        self._given -= claimant.given
        if claimant.queue in self._wet:
            self._wet.remove(claimant.queue)
            self._inverses -= 1 / claimant.factor
            self._levels -= claimant.level
        self._flood()

    def _flood(self) -> None:
        while self._dry and (not self._wet or self._dry[-1][0] <= self.level):
            _, queue, reached = self._dry.pop()
            if queue not in self._gone:
                self._wet.add(queue)
                self._inverses += 1 / reached.factor
                self._levels += reached.level


class Division:
    """Divides what is free among queues, one session at a time.

    Each session goes to the queue whose effective priority is lowest, with what the round has given
    it so far: after the round, what queues have stands in proportion to the inverses of their
    factors, as far as their work, their limits and what is free allow. What one cannot use goes to
    the others. So that nobody is off by more than one session, a queue has its turn when the level
    of all has reached its priority, and of those the one goes first that would be left behind
    first: earliest eligible virtual deadline first (Stoica and Abdel-Wahab, 1995).

    `place` books room for one session of a line and says why not if there is none; there is none
    in the rest of the round then for the others of the line.
    """

    def __init__(
        self,
        claimants: Sequence[Claimant],
        *,
        place: Callable[[Line], str],
        slots: int,
        retry_share: float,
    ):
        self._claimants = claimants
        self._place = place
        self._slots = slots
        self._retry_share = retry_share
        self._water = _Water(claimants)
        self._later = [(each.priority, each.factor, each.queue, each) for each in claimants]
        heapify(self._later)
        self._turn: list[tuple[float, float, int, Claimant, Line]] = []
        self.grants: list[Grant] = []

    def go_on(self) -> list[Line]:
        """Divide until nothing can be given, or until lines have to be read on: those lines."""
        while len(self.grants) < self._slots and (self._turn or self._later):
            if not self._call_up():
                return [each for c in self._claimants for each in c.lines if each.unread]
            if not self._turn:
                continue
            _, _, _, claimant, line = heappop(self._turn)
            if why := self._refusal(claimant, line):
                line.closed = why
                heappush(
                    self._later, (claimant.priority, claimant.factor, claimant.queue, claimant)
                )
            else:
                self._give(claimant, line)
        return []

    def _call_up(self) -> bool:
        """Let all have their turn whose priority is reached, or the next one if none is; False if
        it is not known what they want."""
        while self._later and (
            not self._turn or self._later[0][0] <= self._water.level * (1 + _ROUNDING)
        ):
            claimant = self._later[0][-1]
            if any(line.unread for line in claimant.lines):
                return False
            heappop(self._later)
            line = claimant.next_line(self._retry_share)
            if line is None:
                self._water.drop(claimant)
                continue
            behind = effective_priority(
                claimant.factor, claimant.level + claimant.given + line.size
            )
            heappush(self._turn, (behind, claimant.factor, claimant.queue, claimant, line))
        return True

    def _give(self, claimant: Claimant, line: Line) -> None:
        claimant.take(line)
        self._water.rise(line.size)
        self.grants.append(Grant(claimant, line))
        heappush(self._later, (claimant.priority, claimant.factor, claimant.queue, claimant))

    def _refusal(self, claimant: Claimant, line: Line) -> str:
        for limit in claimant.limits:
            short = limit.exceeded_by(line.amounts)
            if short is not None:
                return f"{limit.name}: {short}"
        return self._place(line)
