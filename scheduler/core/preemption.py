"""Preemption: which running sessions make room for one that waits. Pure.

A plan frees whole sessions only. No victim of a plan can be left out of it. `preemption_plans.py`
makes several plans, one after the other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from base.podspec.resources import Amounts, total
from scheduler.core.fit import Ask, Opening

SURPLUS = 1.1
"""A queue that holds more than this times its share may have to give back the rest."""


class Running(NamedTuple):
    """A running session that may make room, by its class.

    `nodes` has one node a rank. It is empty if not all of them are known: such a session can only
    free a session slot.
    """

    id: UUID
    queue: int
    rank: int
    """The value of its class."""
    ask: Ask
    nodes: tuple[str, ...]
    size: float
    """Its share of the pool."""
    lost: float
    """The work lost if it ends now: pods x seconds."""


def seconds_lost(ran: float, progress: Mapping[str, Any]) -> float:
    """Return the seconds of work since the start, or since the checkpoint that was told.

    `ran` is the seconds since the start, and `progress` as `sessions_app/core/progress.py` has it.
    """
    rate, step, kept = (progress.get(name) for name in ("rate", "step", "checkpoint_step"))
    if rate and step is not None and kept is not None:
        return float(min(max((step - kept) / rate, 0.0), ran))
    return ran


class Taker(NamedTuple):
    """A waiting session for which room may be made."""

    queue: int
    rank: int
    ask: Ask
    size: float


class Shares(NamedTuple):
    """What queues hold, and their shares: parts of the pool, by queue."""

    held: Mapping[int, float]
    fair: Mapping[int, float]

    def above(self, queue: int) -> float:
        """Return how far a queue is above its share, in parts of the pool; negative: below."""
        return self.held.get(queue, 0.0) - self.fair.get(queue, 0.0)

    def moved(self, changes: Iterable[tuple[int, float]]) -> "Shares":
        """Return the shares after these changes of what queues hold: (queue, size)."""
        held = dict(self.held)
        for queue, size in changes:
            held[queue] = held.get(queue, 0.0) + size
        return Shares(held, self.fair)


class Plan(NamedTuple):
    """The sessions that make room, and the nodes on which it is kept for the taker."""

    victims: list[Running]
    nodes: list[str]


class Place(NamedTuple):
    """The nodes that a session may use, and how many session slots of the executor are free.

    Fewer than none are free if its limit was lowered below what runs.
    """

    openings: Mapping[str, Opening]
    slots: int = 1


def shares(factors: Mapping[int, float], held: Mapping[int, float]) -> Shares:
    """Return the shares of queues that have work or run something: by the inverse factors."""
    weights = sum(1 / factor for factor in factors.values())
    return Shares(held, {queue: 1 / factor / weights for queue, factor in factors.items()})


def queues_below(shares: Shares, waiting: Iterable[int], part: float) -> set[int]:
    """Return the queues of those in which sessions wait that hold less than `part` of theirs."""
    fair, held = shares.fair, shares.held
    return {each for each in waiting if held.get(each, 0.0) < part * fair.get(each, 0.0)}


def plan_by_priority(
    taker: Taker, running: Iterable[Running], place: Place, shares: Shares
) -> Plan | None:
    """Return how sessions of lower classes make room; None if they cannot."""
    lower = [each for each in running if each.rank < taker.rank]
    return _plan(taker.ask, lower, place, shares, _anything)


def plan_by_share(
    taker: Taker, running: Iterable[Running], place: Place, shares: Shares
) -> Plan | None:
    """Return how queues above their share give room back; None if they cannot.

    No queue falls below its share. None gives to a lower class, and the taker's queue does not get
    so much that it would have to give back in turn.
    """
    fair = shares.fair.get(taker.queue, 0.0)
    if shares.held.get(taker.queue, 0.0) + taker.size > SURPLUS * fair:
        return None
    rich = {q for q, held in shares.held.items() if held > SURPLUS * shares.fair.get(q, 0.0)}
    givers = [each for each in running if each.rank <= taker.rank and each.queue in rich]
    givers = [each for each in givers if each.queue != taker.queue]

    def allowed(chosen: Sequence[Running], one: Running) -> bool:
        given = sum(each.size for each in chosen if each.queue == one.queue)
        return shares.above(one.queue) - given - one.size >= 0

    return _plan(taker.ask, givers, place, shares, allowed)


_Allowed = Callable[[Sequence[Running], Running], bool]


def _anything(_chosen: Sequence[Running], _one: Running) -> bool:
    return True


def _in_orders(running: Iterable[Running], shares: Shares) -> list[list[Running]]:
    """Sort victims in the two orders that are tried: the lowest class, then the queue furthest
    above its share, then the least work lost, as it is and by the room it gives, then the fewest
    pods.

    As it is, many small sessions would go before a large one that is as old.
    """
    found = list(running)
    above = {queue: -shares.above(queue) for queue in {each.queue for each in found}}

    def as_it_is(one: Running) -> tuple[int, float, float, int, UUID]:
        return one.rank, above[one.queue], one.lost, one.ask.pods, one.id

    def by_room(one: Running) -> tuple[int, float, float, int, UUID]:
        lost = one.lost / one.size if one.size else 0.0
        return one.rank, above[one.queue], lost, one.ask.pods, one.id

    found.sort(key=as_it_is)
    other = sorted(found, key=by_room)
    return [found] if other == found else [found, other]


def _plan(
    ask: Ask, running: Iterable[Running], place: Place, shares: Shares, allowed: _Allowed
) -> Plan | None:
    """Return the best plan on one node if one will do, else over all nodes, else None."""
    orders = _in_orders(running, shares)
    found = _on_one(ask, orders, place.openings, allowed)
    if not found and ask.pods > 1:
        found = _on_several(ask, orders, place.openings, allowed)
    whole = [
        plan
        for each in found
        if (plan := _with_slots(each, orders[0], place.slots, allowed)) is not None
    ]
    return min(whole, key=lambda plan: _worth(plan, shares), default=None)


_Orders = Sequence[Sequence[Running]]


def _on_one(
    ask: Ask, orders: _Orders, openings: Mapping[str, Opening], allowed: _Allowed
) -> list[Plan]:
    return [
        Plan(chosen, [name])
        for ordered in orders
        for name, there in _by_node(ordered, openings).items()
        if (chosen := _choose(ask, there, {name: openings[name]}, allowed)) is not None
    ]


def _on_several(
    ask: Ask, orders: _Orders, openings: Mapping[str, Opening], allowed: _Allowed
) -> list[Plan]:
    there = [[each for each in ordered if set(each.nodes) & openings.keys()] for ordered in orders]
    return [
        Plan(chosen, _used(ask, chosen, openings))
        for ordered in there
        if (chosen := _choose(ask, ordered, openings, allowed)) is not None
    ]


def _with_slots(
    plan: Plan, ordered: Iterable[Running], slots: int, allowed: _Allowed
) -> Plan | None:
    """Return the plan with as many more victims, from anywhere, as one session slot needs.

    Return None if there are not enough.
    """
    victims = list(plan.victims)
    known = {each.id for each in victims}
    for each in ordered:
        if slots + len(victims) > 0:
            break
        if each.id not in known and allowed(victims, each):
            victims.append(each)
    return Plan(victims, plan.nodes) if slots + len(victims) > 0 else None


def _by_node(running: Iterable[Running], nodes: Iterable[str]) -> dict[str, list[Running]]:
    """Return the sessions on each of these nodes, in their order."""
    found: dict[str, list[Running]] = {name: [] for name in nodes}
    for each in running:
        names = each.nodes if len(each.nodes) == 1 else set(each.nodes)
        for name in names:
            if name in found:
                found[name].append(each)
    return found


def _used(ask: Ask, victims: Iterable[Running], openings: Mapping[str, Opening]) -> list[str]:
    """Return the nodes that the victims free, and those that have room already."""
    freed = {name for each in victims for name in each.nodes}
    return sorted(n for n, each in openings.items() if n in freed or each.holds(ask, {}, 0))


def _worth(plan: Plan, shares: Shares) -> tuple[int, float, float, int, str]:
    """Return what plans are compared by: of the victims the highest class and the queue nearest to
    its share, then the work lost, and their number."""
    victims = plan.victims
    return (
        max((each.rank for each in victims), default=-(2**31)),
        max((-shares.above(each.queue) for each in victims), default=0.0),
        sum(each.lost for each in victims),
        len(victims),
        plan.nodes[0],
    )


def _choose(
    ask: Ask, ordered: Sequence[Running], openings: Mapping[str, Opening], allowed: _Allowed
) -> list[Running] | None:
    """Return the first victims in order that are enough, without those that are not needed."""
    if fits_after(ask, (), openings):
        return []
    chosen: list[Running] = []
    for each in ordered:
        if allowed(chosen, each):
            chosen.append(each)
            if fits_after(ask, chosen, openings):
                break
    else:
        return None
    # The last one was needed, or it would have been enough before.
    for each in reversed(chosen[:-1]):
        rest = [other for other in chosen if other is not each]
        if fits_after(ask, rest, openings):
            chosen = rest
    return chosen


def fits_after(ask: Ask, victims: Iterable[Running], openings: Mapping[str, Opening]) -> bool:
    """Return whether a session fits on these nodes once the victims have ended."""
    freed: dict[str, list[Amounts]] = {name: [] for name in openings}
    for each in victims:
        for name in each.nodes:
            if name in freed:
                freed[name].append(each.ask.amounts)
    missing = ask.pods
    for name, opening in openings.items():
        missing -= opening.holds(ask, total(freed[name]), len(freed[name]))
        if missing <= 0:
            return True
    return False
