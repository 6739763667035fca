"""An executor in a lease round: what fits there now, and what is left to other executors."""

from podspec.resources import Amounts
from scheduler.allocation.alternatives import Alternatives
from scheduler.allocation.waiting_lines import BusyQueue, Wish
from scheduler.core.fairshare import WaitingLine, cost
from scheduler.core.fit import Ask, Misfit, Room
from scheduler.models import Executor


class Site:
    """The room of one executor. Each line is checked once, however many sessions wait in it."""

    def __init__(self, executor: Executor, room: Room, alternatives: Alternatives):
        self._name = executor.name
        self._room = room
        self._alternatives = alternatives
        self._misfits: dict[tuple[int, str], Misfit | None] = {}
        self._spots: dict[WaitingLine, tuple[Ask, str]] = {}
        self._promised: WaitingLine | None = None
        self.full: list[tuple[BusyQueue, WaitingLine]] = []
        """Lines that wait for room on this executor."""
        self.left_waiting = 0
        """Number of lines that wait for room here or are left to other executors."""

    def line(self, queue: BusyQueue, key: int, wish: Wish, pool: Amounts) -> WaitingLine | None:
        """Return a line if its first session fits now and is not left to others, else None.

        `pool` is the total that the sizes of lines are shares of.
        """
        node = self._node_to_avoid(queue, key, wish)
        misfit = self._misfit(key, wish, node)
        if misfit is not None and not misfit.ever:
            return None
        line = WaitingLine(key, wish.retry, wish.taken, cost(wish.taken, pool))
        self._spots[line] = (wish.ask, node)
        if misfit is None and not self._leaves_to_others(queue, wish):
            return line
        self.left_waiting += 1
        if misfit is not None:
            self.full.append((queue, line))
        return None

    def book(self, line: WaitingLine) -> str:
        """Take room for one session of a line. Return "" or the reason why there is none."""
        if line is self._promised:
            self._promised = None
            return ""
        if self._room.place(*self._spots[line]):
            return ""
        self.left_waiting += 1
        return "room"

    def reserve(self, line: WaitingLine) -> None:
        """Reserve the nodes on which a line that waits for room will fit first."""
        self._room.reserve(*self._spots[line])

    def promise(self, line: WaitingLine) -> None:
        """Keep room for the first session of a line that fits, before anything else is granted."""
        if self._promised is None and self._room.place(*self._spots[line]):
            self._promised = line

    def node_avoided(self, line: WaitingLine) -> str:
        """Return the node of this executor that the sessions of a line avoid; "" for none."""
        return self._spots[line][1]

    def _misfit(self, key: int, wish: Wish, node: str) -> Misfit | None:
        if (key, node) not in self._misfits:
            self._misfits[key, node] = self._room.misfit(wish.ask, node)
        return self._misfits[key, node]

    def _leaves_to_others(self, queue: BusyQueue, wish: Wish) -> bool:
        """Return whether the wish avoids this executor and another one could run it."""
        return self._name in wish.avoid_executors and self._alternatives.could_ever_run(
            queue.project_id, wish
        )

    def _node_to_avoid(self, queue: BusyQueue, key: int, wish: Wish) -> str:
        """Return the node here that the line avoids; "" if no other place could run it."""
        node = wish.node_avoided_on(self._name) if wish.node else ""
        if not node:
            return ""
        misfit = self._misfit(key, wish, node)
        if (
            misfit is None
            or misfit.ever
            or self._alternatives.could_ever_run(queue.project_id, wish)
        ):
            return node
        return ""
