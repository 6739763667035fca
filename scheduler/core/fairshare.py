"""Fair share: what a queue costs, how its history counts, and who gets the free room. Pure.

Costs and sizes are shares of the pool: 0.25 is a quarter of the resource of which most is taken.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heapify, heappop, heappush
from typing import NamedTuple
from uuid import UUID

from base.podspec.resources import Amounts

FLOOR = 1e-6
"""The lowest current priority: a queue that has not run for ages is no better than this."""
NEAR = 0.1
"""History decides only between queues that are this near to their share, in parts of the pool."""
REACH = 0.02
"""How far history moves the level of the queue with the largest share, in parts of the pool.

Shares stay within 0.05 of what the present holdings alone would give, also while queues come."""
MOST_REACH = 0.25
"""How far history moves the level of any queue at most, in parts of its own share."""
_LEAST_HISTORY = 0.01
"""Together queues must have had this part of the pool, or their history says nothing."""
_FEWEST = 2
_ROUNDING = 1e-9
_NOTHING = Decimal(0)


class Order(NamedTuple):
    """The position of a session in its queue; the smallest is next.

    `root_submitted_at` is in microseconds, since numbers are read faster than times. All sessions
    of a bulk call have the same: there retries go before what is `fresh`, and roots decide.
    """

    negative_priority: int
    root_submitted_at: int
    fresh: bool
    root_id: UUID
    id: UUID


def cost(used: Amounts, pool: Amounts) -> float:
    """Return the dominant share: the largest used / total over the resources of the pool.

    A resource that the pool does not have costs nothing: nobody else could use it.
    """
    return max(
        (float(value / pool[name]) for name, value in used.items() if pool.get(name)), default=0.0
    )


def current_priority(cost: float, before: float, seconds: float, half_time: float) -> float:
    """Return the priority that was `before`, after `seconds` in which the queue cost `cost`.

    After one half time it is half way between the two.
    """
    left = math.pow(2.0, -max(seconds, 0.0) / half_time)
    return max(cost + (before - cost) * left, FLOOR)


def effective_priority(factor: float, current: float) -> float:
    """Return the value that queues are compared by; the lowest is served first."""
    return factor * current


class Standing(NamedTuple):
    """A queue with work: its factor, the share that it holds now, and its decayed priority."""

    factor: float
    held: float
    history: float


def levels_with_history(standings: Mapping[int, Standing], left: float) -> dict[int, float]:
    """Return the levels by which queues are compared, by queue.

    `left` is the part of the pool that queues without work do not hold. The share of a queue is its
    part of it, by the inverse of its factor. The level of a queue is what it holds. Only if that is
    `NEAR` its share, history moves it: up if the queue had more than its part of all that these
    queues had, else down. The reach is the same part of each share, so that queues without a past
    keep their proportions. It is shorter than `NEAR`, so history pushes no queue out of there.
    """
    weights = sum(1 / each.factor for each in standings.values())
    shares = {queue: left / each.factor / weights for queue, each in standings.items()}
    near = {q: each for q, each in standings.items() if abs(each.held - shares[q]) <= NEAR}
    levels = {queue: max(each.held, FLOOR) for queue, each in standings.items()}
    had = sum(each.history for each in near.values())
    shared = sum(shares[queue] for queue in near)
    if len(near) < _FEWEST or had < _LEAST_HISTORY or shared <= 0:
        return levels
    reach = min(REACH / max(shares[queue] for queue in near), MOST_REACH)
    for queue, each in near.items():
        share = shares[queue]
        surplus = each.history * shared / had - share
        moved = each.held + min(max(surplus, -reach * share), reach * share)
        levels[queue] = max(min(max(moved, share - NEAR), share + NEAR), FLOOR)
    return levels


def above_shares(factors: Mapping[int, float], holds: Mapping[int, float]) -> dict[int, float]:
    """Return what each queue holds above its share of all that these queues hold together.

    It is negative below. What one queue holds above its share the others hold below theirs.
    """
    level = sum(holds.values()) / (sum(1 / each for each in factors.values()) or 1.0)
    return {queue: holds[queue] - level / factor for queue, factor in factors.items()}


@dataclass(slots=True, eq=False)
class Limit:
    """The amounts that may still be taken under one limit, of one or of several queues.

    A resource that is not named has no limit. An amount is negative if it already exceeds its
    limit.
    """

    name: str
    left: Amounts

    def exceeded_by(self, wanted: Amounts) -> str | None:
        """Return the first resource, by name, of which too little is left; None if all suffice."""
        return next(
            (
                name
                for name, left in sorted(self.left.items())
                if wanted.get(name, _NOTHING) > max(left, _NOTHING)
            ),
            None,
        )

    def take(self, wanted: Amounts) -> None:
        """Subtract what was granted."""
        for name in self.left.keys() & wanted.keys():
            self.left[name] -= wanted[name]


@dataclass(slots=True, eq=False)
class WaitingLine:
    """The sessions of one queue that ask for the same, in their order.

    `amounts` and `size` are those of one session. `heads` are the first sessions that were read and
    have no grant yet; `more` is true if others may follow them.
    """

    key: int
    retry: bool
    amounts: Amounts
    size: float
    heads: deque[Order] = field(default_factory=deque)
    more: bool = True
    closed: str = ""
    """Why none of these sessions can get anything in this round; "" while they can."""

    @property
    def unread(self) -> bool:
        """Return whether the line must be read further to know its next session."""
        return not self.heads and self.more and not self.closed

    @property
    def ready(self) -> bool:
        """Return whether the next session is known and may get a grant."""
        return bool(self.heads) and not self.closed


@dataclass(slots=True, eq=False)
class Claimant:
    """A queue with work in a round.

    `level` is what it holds of the pool, moved by its history; `held` is the share that it holds of
    this executor, and `held_by_retries` the part of it that its retries hold.
    """

    queue: int
    factor: float
    level: float
    waiting_lines: Sequence[WaitingLine]
    limits: Sequence[Limit] = ()
    held: float = 0.0
    held_by_retries: float = 0.0
    given: float = 0.0

    @property
    def priority(self) -> float:
        """Return the effective priority, with what the round has granted so far."""
        return effective_priority(self.factor, self.level + self.given)

    def next_line(self, retry_share: float) -> WaitingLine | None:
        """Return the line whose head is next, in order; None if no line is ready.

        While fresh sessions wait, retries get no more than their share of what the queue holds.
        """
        ready = [line for line in self.waiting_lines if line.ready]
        if not ready:
            return None
        line = min(ready, key=lambda each: each.heads[0])
        fresh = [each for each in ready if not each.retry]
        if line.retry and fresh and self._retries_have_their_share(line, retry_share):
            return min(fresh, key=lambda each: each.heads[0])
        return line

    def _retries_have_their_share(self, line: WaitingLine, retry_share: float) -> bool:
        whole = self.held + line.size
        return self.held_by_retries >= retry_share * whole - _ROUNDING * whole

    def take(self, line: WaitingLine) -> None:
        """Grant the head of a line what it asks for."""
        line.heads.popleft()
        self.given += line.size
        self.held += line.size
        self.held_by_retries += line.size if line.retry else 0.0
        for limit in self.limits:
            limit.take(line.amounts)


class Grant(NamedTuple):
    """A grant for the next session of a line."""

    claimant: Claimant
    line: WaitingLine


class _Water:
    """The level that the granted amounts would reach if they filled all queues evenly."""

    def __init__(self, claimants: Sequence[Claimant]):
        self._dry = sorted(((each.priority, each.queue, each) for each in claimants), reverse=True)
        self._inverses = self._levels = self._given = 0.0
        self._wet: set[int] = set()
        self._gone: set[int] = set()
        self._flood()

    @property
    def level(self) -> float:
        """Return the effective priority of all queues that the level has reached; 0.0 if none."""
        return (self._given + self._levels) / self._inverses if self._wet else 0.0

    def rise(self, size: float) -> None:
        """Add the size of a grant; the level may reach more queues."""
        self._given += size
        self._flood()

    def drop(self, claimant: Claimant) -> None:
        """Remove a queue that gets no more, with what it got."""
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
    """Divides the free room among queues, one session at a time.

    Each session goes to the queue with the lowest effective priority, counting what the round has
    granted so far. After the round the holdings of queues are in proportion to the inverses of
    their factors, as far as their work, their limits and the free room allow. What one queue cannot
    use goes to the others. To keep every queue within one session of its share, a queue becomes
    eligible when the common level has reached its priority. Of the eligible queues the one goes
    first that would be left behind first: earliest eligible virtual deadline first (Stoica and
    Abdel-Wahab, 1995).

    `place` takes room for one session of a line and returns "", or the reason why there is none;
    then the other sessions of the line get nothing in this round either.
    """

    def __init__(
        self,
        claimants: Sequence[Claimant],
        *,
        place: Callable[[WaitingLine], str],
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
        self._turn: list[tuple[float, float, int, Claimant, WaitingLine]] = []
        self.grants: list[Grant] = []

    def go_on(self) -> list[WaitingLine]:
        """Divide until nothing more can be granted or lines must be read; return those lines."""
        while len(self.grants) < self._slots and (self._turn or self._later):
            if not self._call_up():
                return [each for c in self._claimants for each in c.waiting_lines if each.unread]
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
        """Make all queues eligible whose priority is reached, or the next one if none is.

        Return False if the wishes of a queue have to be read first.
        """
        while self._later and (
            not self._turn or self._later[0][0] <= self._water.level * (1 + _ROUNDING)
        ):
            claimant = self._later[0][-1]
            if any(line.unread for line in claimant.waiting_lines):
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

    def _give(self, claimant: Claimant, line: WaitingLine) -> None:
        claimant.take(line)
        self._water.rise(line.size)
        self.grants.append(Grant(claimant, line))
        heappush(self._later, (claimant.priority, claimant.factor, claimant.queue, claimant))

    def _refusal(self, claimant: Claimant, line: WaitingLine) -> str:
        for limit in claimant.limits:
            short = limit.exceeded_by(line.amounts)
            if short is not None:
                return f"{limit.name}: {short}"
        return self._place(line)
