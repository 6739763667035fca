"""Several plans of preemption on one executor, each with the room that those before leave. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from base.podspec.resources import Amounts, total
from scheduler.core.fit import Opening
from scheduler.core.preemption import (
    Place,
    Plan,
    Running,
    Shares,
    Taker,
    plan_by_priority,
    plan_by_share,
)

Rule = Literal["priority", "fair_share"]
PRIORITY: Rule = "priority"
FAIR_SHARE: Rule = "fair_share"


class Rate(NamedTuple):
    """The sessions that have made room within a minute, and their maximum. One plan always may."""

    recent: int
    most: float

    @property
    def left(self) -> int:
        """Return the number of plans that may still be made."""
        return max(int(self.most) - self.recent, 0 if self.recent else 1)

    @property
    def used_up(self) -> bool:
        """Return whether no plan may be made."""
        return not self.left

    def allows(self, victims: int) -> bool:
        """Return whether so many sessions may make room."""
        return self.recent == 0 or self.recent + victims <= self.most

    def after(self, victims: int) -> "Rate":
        """Return the rate once so many sessions have made room."""
        return self._replace(recent=self.recent + victims)


class Plans:
    """The plans of one sweep on one executor.

    What `book` has booked counts from then on: its victims are gone, their room is the taker's, and
    the queues hold less or more. So no later plan takes the same room, takes more from a queue than
    its share allows, or stops a session though an earlier plan has left enough.
    """

    def __init__(self, running: Iterable[Running], shares: Shares, slots: int):
        self.shares = shares
        """The shares that queues hold once all plans are carried out."""
        self.changes: list[tuple[int, float]] = []
        """By how much the plans change what queues hold: (queue, size)."""
        self._running = {each.id: each for each in running}
        self._slots = slots
        self._freed: dict[str, list[Amounts]] = defaultdict(list)
        self._taken: dict[str, list[Amounts]] = defaultdict(list)
        self._closed: set[str] = set()
        """Nodes on which a cluster session gets its room: which of its pods go where is open."""

    def plan(self, taker: Taker, rule: Rule, openings: Mapping[str, Opening]) -> Plan | None:
        """Return how room can be made; without victims if there is enough, None if it cannot.

        `openings` are those of the nodes before the first plan.
        """
        make = plan_by_priority if rule == PRIORITY else plan_by_share
        place = Place(self._openings(openings), self._slots)
        return make(taker, self._running.values(), place, self.shares)

    def book(self, taker: Taker, plan: Plan) -> None:
        """Count a plan as carried out."""
        changes = [(taker.queue, taker.size)]
        for each in plan.victims:
            del self._running[each.id]
            changes.append((each.queue, -each.size))
            for name in each.nodes:
                self._freed[name].append(each.ask.amounts)
        self.shares = self.shares.moved(changes)
        self.changes += changes
        self._slots += len(plan.victims) - 1
        if taker.ask.pods == 1:
            self._taken[plan.nodes[0]].append(taker.ask.amounts)
        else:
            self._closed.update(plan.nodes)

    def _openings(self, before: Mapping[str, Opening]) -> dict[str, Opening]:
        return {
            name: self._opening(name, each)
            for name, each in before.items()
            if name not in self._closed
        }

    def _opening(self, name: str, before: Opening) -> Opening:
        if name not in self._freed and name not in self._taken:
            return before
        freed, taken = self._freed.get(name, []), self._taken.get(name, [])
        gone = ({each: -value for each, value in amounts.items()} for amounts in taken)
        free = total([before.free, *freed, *gone])
        return Opening(free, before.slots + len(freed) - len(taken))
