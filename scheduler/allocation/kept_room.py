"""The room that a round keeps for sessions with a reservation, which get it before all others."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from scheduler.allocation.executor_room import Site
from scheduler.allocation.reservations import (
    Reserved,
    limited_write,
    reservations_write,
    takers_of,
)
from scheduler.allocation.starvation import Starvation
from scheduler.allocation.supply import Supply
from scheduler.allocation.waiting_lines import BusyQueue, LineReader
from scheduler.core.fairshare import Claimant, Grant, WaitingLine

MOST_RESERVED = 0.25
"""Most of the pool, and of an executor, that is kept free for starved sessions; but one of them
always gets its nodes."""
LIMITED_FOR = timedelta(minutes=5)
"""How long room is kept for a starved session that only a limit of its queue or a quota holds back.
A queue is often at its limit for a moment; without this its nodes had to become free anew."""


class KeptRoom:
    """The reservations of an executor in one round.

    A reservation lasts until its session is leased or ends, a limit has held it back for
    `LIMITED_FOR`, or one of its nodes goes. Several sessions of a line can have one; whoever is
    first in the line gets the room.
    """

    def __init__(self, supply: Supply):
        self._supply = supply
        self._before: Reserved = supply.executor.reserved or {}
        """The reservations that the round before has left."""
        takers = takers_of(supply.executor, supply.alive) if self._before else {}
        self._all_takers = self._takers = takers
        self.now: dict[str, list[str]] = {}
        """The reservations that the round leaves, by session id."""
        self._starved: list[WaitingLine] = []
        """The lines of the starved sessions for which room is kept here."""
        self.sizes: list[tuple[int, float]] = []
        """The queue and the size of each session that has got its kept room now, or still waits for
        it."""
        self._granted: set[str] = set()
        self._limited: dict[str, datetime] = {}
        """Since when only a limit holds sessions back, by session id."""

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

    def refused(self, sessions: Iterable[str]) -> None:
        """Leave the reservations of sessions that were granted, but that a quota refuses."""
        self.now.update({key: self._before[key] for key in sessions if key in self._all_takers})

    def write(self) -> None:
        """Store the reservations, and since when only a limit holds sessions back."""
        reservations_write(self._supply.executor, self._before, self.now)
        before = {key: each.limited_since for key, each in self._all_takers.items()}
        limited = {key: self._limited.get(key) for key in self.now}
        changed = {key: since for key, since in limited.items() if since != before.get(key)}
        limited_write(self._supply.executor, changed)

    def grant(
        self,
        site: Site,
        claimants: Sequence[Claimant],
        slots: int,
        reader: LineReader,
    ) -> list[Grant]:
        """Grant what is reserved and free by now, whatever the queues hold, at most `slots`.

        Levels then include these grants.
        """
        self.now, self._granted, self._limited = {}, set(), {}
        found = dict(self._ready(claimants))
        if not found:
            return []
        reader.read(Counter(line for _, line in found.values()))
        grants: list[Grant] = []
        for session, (claimant, line) in found.items():
            if len(grants) < slots and self._take(site, session, claimant, line):
                grants.append(Grant(claimant, line))
                self._granted.add(session)
        for each in claimants:
            each.level, each.given = each.level + each.given, 0.0
        return grants

    def keep(
        self,
        site: Site,
        waiting: Iterable[tuple[int, WaitingLine]],
        unlimited: Collection[WaitingLine],
    ) -> None:
        """Keep the room of those that get nothing now and stand in one of these lines, by queue.

        A limit holds back the lines that are not `unlimited`.
        """
        lines = {(queue, line.key): line for queue, line in waiting}
        self._starved, self.sizes = [], []
        for session, taker in self._takers.items():
            line = lines.get((taker.queue_id, taker.key))
            if line is None:
                continue
            if session in self._granted:
                self.sizes.append((taker.queue_id, line.size))
                continue
            if not taker.preempts and line not in unlimited:
                self._limited[session] = since = taker.limited_since or self._supply.now
                if self._supply.now - since >= LIMITED_FOR:
                    continue
            nodes = self._before[session]
            if nodes and not site.keep(line, nodes):
                nodes = site.reserve(line)
                if not nodes:
                    continue
            self.now[session] = nodes
            self.sizes.append((taker.queue_id, line.size))
            if not taker.preempts:
                self._starved.append(line)

    def is_enough(self, line: WaitingLine, elsewhere: float = 0.0) -> bool:
        """Return whether too much would be kept with one more session of a line.

        Other executors keep `elsewhere`, as a part of the pool.
        """
        here = sum(map(self._supply.part, self._starved))
        pool = elsewhere + sum(each.size for each in self._starved)
        return any(
            kept > 0 and round(kept + more, 9) > MOST_RESERVED
            for kept, more in ((here, self._supply.part(line)), (pool, line.size))
        )

    def reserve(
        self,
        site: Site,
        lines: Iterable[tuple[int, WaitingLine]],
        elsewhere: float,
        starvation: Starvation,
    ) -> None:
        """Reserve nodes for the heads of starved lines, by queue, until enough is kept.

        None are for a head that only nodes that the cluster has yet to add could hold, and none for
        one whose queue has its share with what is kept for it.
        """
        for queue, line in lines:
            if self.is_enough(line, elsewhere):
                break
            if starvation.below_share(queue) and (nodes := site.reserve(line)):
                self.now[str(line.heads[0].id)] = nodes
                self._starved.append(line)
                starvation.count([(queue, line.size)])

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
