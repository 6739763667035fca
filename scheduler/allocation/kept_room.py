"""The room that a round keeps for sessions with a reservation, which get it before all others."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from scheduler.allocation.executor_room import Site
from scheduler.allocation.reservations import Reserved, Taker
from scheduler.allocation.waiting_lines import BusyQueue, Reading, heads_read
from scheduler.core.fairshare import Claimant, Grant, WaitingLine


class KeptRoom:
    """The reservations of an executor in one round.

    A reservation lasts until its session is leased or ends, or one of its nodes goes. Several
    sessions of a line can have one; whoever is first in the line gets the room. `takers` are the
    sessions that have one, and `part` tells the part of the executor that one of a line takes.
    """

    def __init__(
        self, before: Reserved, takers: Mapping[str, Taker], part: Callable[[WaitingLine], float]
    ):
        self._before = before
        self._takers = takers
        self._part = part
        self.now: dict[str, list[str]] = {}
        """The reservations that the round leaves, by session id."""
        self._granted: set[str] = set()

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that are kept for anybody now."""
        return frozenset(chain.from_iterable(self.now.values()))

    def show_lines(self, queues: Sequence[BusyQueue]) -> None:
        """Let the round read the lines of these sessions, too, if a queue has very many lines."""
        known = {queue.id: queue for queue in queues}
        for each in self._takers.values():
            if each.queue_id in known and each.key not in known[each.queue_id].keys:
                known[each.queue_id].keys.append(each.key)

    def leased(self, sessions: Collection[str]) -> None:
        """Give up the reservations of sessions that have been leased."""
        self._takers = {key: each for key, each in self._takers.items() if key not in sessions}
        self.now = {key: nodes for key, nodes in self.now.items() if key not in sessions}

    def grant(
        self,
        site: Site,
        claimants: Sequence[Claimant],
        slots: int,
        read: Counter[WaitingLine],
    ) -> list[Grant]:
        """Grant what is reserved and free by now, whatever the queues hold, at most `slots`.

        `read` is how far each line has been read. Levels then include these grants.
        """
        self.now, self._granted = {}, set()
        found = dict(self._ready(claimants))
        if not found:
            return []
        wanted = Counter(line for _, line in found.values())
        queues = {line: claimant.queue for claimant, line in found.values()}
        heads_read([Reading(queues[each], each, read[each], n) for each, n in wanted.items()])
        read.update(wanted)
        grants: list[Grant] = []
        for session, (claimant, line) in found.items():
            if len(grants) < slots and self._take(site, session, claimant, line):
                grants.append(Grant(claimant, line))
                self._granted.add(session)
        for each in claimants:
            each.level, each.given = each.level + each.given, 0.0
        return grants

    def keep(self, site: Site, waiting: Iterable[tuple[int, WaitingLine]]) -> float:
        """Keep the room of those that get nothing now and stand in one of these lines, by queue.

        Return the part of the executor that is kept for starved sessions.
        """
        lines = {(queue, line.key): line for queue, line in waiting}
        kept = 0.0
        for session, taker in self._takers.items():
            line = lines.get((taker.queue_id, taker.key))
            if line is None or session in self._granted:
                continue
            nodes = self._before[session]
            if nodes and not site.keep(line, nodes):
                nodes = site.reserve(line)
                if not nodes:
                    continue
            self.now[session] = nodes
            kept += 0.0 if taker.preempts else self._part(line)
        return kept

    def reserve(self, site: Site, line: WaitingLine) -> float:
        """Reserve nodes for the head of a starved line. Return the part of the executor that it
        needs; 0.0 if only nodes that the cluster has yet to add could hold it."""
        nodes = site.reserve(line)
        if nodes:
            self.now[str(line.heads[0].id)] = nodes
        return self._part(line) if nodes else 0.0

    def _ready(
        self, claimants: Sequence[Claimant]
    ) -> Iterator[tuple[str, tuple[Claimant, WaitingLine]]]:
        lines = {
            (each.queue, line.key): (each, line)
            for each in claimants
            for line in each.waiting_lines
        }
        for session, taker in self._takers.items():
            if (place := (taker.queue_id, taker.key)) in lines:
                yield session, lines[place]

    def _take(self, site: Site, session: str, claimant: Claimant, line: WaitingLine) -> bool:
        """Take the room of a session. Its reservation stays until it is leased."""
        limited = any(limit.exceeded_by(line.amounts) for limit in claimant.limits)
        if limited or not line.heads:
            return False
        nodes = self._before[session]
        others = (self._before[each] for each in self._takers if each != session)
        elsewhere = frozenset(chain.from_iterable(others)).difference(nodes)
        if not site.take_kept(line, nodes, elsewhere):
            return False
        self.now[session] = list(nodes)
        claimant.take(line)
        return True
