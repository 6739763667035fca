"""An executor in a lease round: what fits there now, and what is left to other executors."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from base.podspec.resources import Amounts
from scheduler.allocation.alternatives import Alternatives
from scheduler.allocation.holdings import below_at
from scheduler.allocation.waiting_lines import BusyQueue, Wish
from scheduler.core.fairshare import WaitingLine, cost
from scheduler.core.fit import Ask, Avoid, Misfit, Room
from scheduler.models import Avoids, Executor

MOST_TOLD = 10
"""Maximum number of suspect nodes that an event names."""


class Plan(NamedTuple):
    """Where a session gets its room."""

    nodes: Sequence[str] = ()
    """One a rank; empty if no node is planned."""
    template: str = ""
    """The node template of which its cluster has to add nodes; "" for none."""


class Site:
    """The room of one executor. Each line is checked once, however many sessions wait in it."""

    def __init__(self, executor: Executor, room: Room, alternatives: Alternatives):
        self._name = executor.name
        self._labels = executor.labels
        self._suspects = executor.suspect_nodes
        self._closed = executor.closed_nodes
        self._all_avoid = executor.avoid_suspects == Avoids.ALL
        self._below = below_at(executor)
        self._room = room
        self._alternatives = alternatives
        self._misfits: dict[tuple[int, str, Avoid], Misfit | None] = {}
        self._spots: dict[WaitingLine, tuple[Ask, Avoid]] = {}
        self._nodes_avoided: dict[WaitingLine, str] = {}
        self._relented: set[WaitingLine] = set()
        self._promised: WaitingLine | None = None
        self._planned: dict[WaitingLine, deque[Plan]] = defaultdict(deque)
        self.full: list[tuple[BusyQueue, WaitingLine]] = []
        """Lines that wait for room on this executor."""
        self.hesitant: list[tuple[BusyQueue, WaitingLine]] = []
        """Lines that fit, but only on suspect nodes, which they avoid."""
        self.left_waiting = 0
        """Number of lines that wait for room here or are left to other executors."""

    def line(self, queue: BusyQueue, key: int, wish: Wish, pool: Amounts) -> WaitingLine | None:
        """Return a line if its first session fits now and is not left to others, else None.

        `pool` is the total that the sizes of lines are shares of.
        """
        if not wish.takes(self._labels):
            return None
        node = self._node_to_avoid(queue, key, wish)
        misfit = self._misfit(queue, key, wish, node)
        if misfit is not None and not misfit.ever:
            return None
        line = WaitingLine(key, wish.retry, wish.taken, cost(wish.taken, pool))
        avoid = self._avoid(node, wish)
        self._spots[line], self._nodes_avoided[line] = (self._ask(queue, wish), avoid), node
        if misfit is None and not self._leaves_to_others(queue, wish):
            if avoid == node or self._misfit(queue, key, wish, avoid) is None:
                return line
            self.hesitant.append((queue, line))
        self.left_waiting += 1
        if misfit is not None:
            self.full.append((queue, line))
        return None

    def relent(self, line: WaitingLine) -> None:
        """Let a hesitant line use suspect nodes."""
        self._spots[line] = self._spots[line][0], self._nodes_avoided[line]
        self._relented.add(line)
        self.left_waiting -= 1

    def book(self, line: WaitingLine) -> str:
        """Take room for one session of a line. Return "" or the reason why there is none."""
        if line is self._promised:
            self._promised = None
            return ""
        if self._plan(line):
            return ""
        self.left_waiting += 1
        return "room"

    def _plan(self, line: WaitingLine) -> bool:
        nodes = self._room.place(*self._spots[line])
        if nodes is not None:
            self._planned[line].append(Plan(nodes))
            return True
        template = self._room.grow(*self._spots[line])
        if template is not None:
            self._planned[line].append(Plan(template=template))
        return template is not None

    def planned(self, line: WaitingLine) -> Plan:
        """Return the plan of the line's next grant. Each grant is asked for once."""
        return self._planned[line].popleft()

    def take_kept(self, line: WaitingLine, nodes: Sequence[str], others: frozenset[str]) -> bool:
        """Take room for a session of a line that has `nodes` reserved: there if it fits, else where
        nothing is kept for others. Return False if it fits on neither."""
        ask, avoid = self._spots[line]
        found = self._room.place_on(ask, nodes, avoid) if nodes else None
        if found is None:
            found = self._room.place(ask, _with(avoid, others))
        if found is not None:
            self._planned[line].append(Plan(found))
        return found is not None

    def keep(self, line: WaitingLine, nodes: Sequence[str]) -> bool:
        """Keep the room that a session of a line has reserved. Return False if a node is gone."""
        return self._room.keep(nodes, self._spots[line][0])

    def reserve(self, line: WaitingLine) -> list[str]:
        """Keep the nodes free on which a session of a line that waits for room will fit first.

        Return their names.
        """
        ask, avoid = self._spots[line]
        # If nothing else could ever hold it, a suspect node has to.
        return self._room.reserve(ask, avoid) or self._room.reserve(ask, self._nodes_avoided[line])

    def promise(self, line: WaitingLine) -> None:
        """Keep room for the first session of a line that fits, before anything else is granted."""
        if self._promised is None and self._plan(line):
            self._promised = line

    def node_avoided(self, line: WaitingLine) -> str:
        """Return the node of this executor that the sessions of a line avoid; "" for none."""
        return self._nodes_avoided[line]

    def nodes_left_out(self, line: WaitingLine, kept: Iterable[str]) -> list[str]:
        """Return the nodes that the sessions of a line must not use, if no others are named.

        `kept` are those that are kept free for others.
        """
        avoid = self._spots[line][1]
        shunned = avoid if isinstance(avoid, frozenset) else frozenset()
        return sorted(self._closed.union(shunned, kept))

    def suspects_met(self, line: WaitingLine, nodes: Sequence[str]) -> dict[str, Any]:
        """Return which suspect nodes a session of a line has left out or may use after all.

        This is what its event tells of them; empty for nothing. `nodes` are those named to it.
        """
        if line in self._relented:
            used = self._suspects.intersection(nodes) if nodes else self._suspects
            return _suspects_told(used, allowed=True)
        # Only lines that avoid suspect nodes avoid several.
        return self._suspects_left_out if isinstance(self._spots[line][1], frozenset) else {}

    @cached_property
    def _suspects_left_out(self) -> dict[str, Any]:
        return _suspects_told(self._suspects, allowed=False)

    def _avoid(self, node: str, wish: Wish) -> Avoid:
        """Return what a wish avoids here: a node, and suspect nodes as long as others fit."""
        if not self._suspects or not (wish.retry or self._all_avoid):
            return node
        return self._suspects | {node} if node else self._suspects

    def _misfit(self, queue: BusyQueue, key: int, wish: Wish, avoid: Avoid) -> Misfit | None:
        place = key, queue.placing, avoid
        if place not in self._misfits:
            self._misfits[place] = self._room.misfit(self._ask(queue, wish), avoid)
        return self._misfits[place]

    def _ask(self, queue: BusyQueue, wish: Wish) -> Ask:
        return wish.ask_on(self._below.under(queue.placing))

    def _leaves_to_others(self, queue: BusyQueue, wish: Wish) -> bool:
        """Return whether the wish avoids this executor and another one could run it."""
        return self._name in wish.avoid_executors and self._alternatives.could_ever_run(queue, wish)

    def _node_to_avoid(self, queue: BusyQueue, key: int, wish: Wish) -> str:
        """Return the node here that the line avoids; "" if no other place could run it."""
        node = wish.node_avoided_on(self._name) if wish.node else ""
        if not node:
            return ""
        misfit = self._misfit(queue, key, wish, node)
        if misfit is None or misfit.ever or self._alternatives.could_ever_run(queue, wish):
            return node
        return ""


def _with(avoid: Avoid, more: frozenset[str]) -> frozenset[str]:
    """Return the names of all nodes that are avoided."""
    if isinstance(avoid, frozenset):
        return avoid | more
    return more | {avoid} if avoid else more


def _suspects_told(names: Collection[str], *, allowed: bool) -> dict[str, Any]:
    if not names:
        return {}
    told = {"allowed": allowed, "count": len(names), "names": sorted(names)[:MOST_TOLD]}
    return {"suspect_nodes": told}
