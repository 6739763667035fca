"""The sessions that a round locks for its executor."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

from base.podspec.resources import Amounts
from scheduler.allocation.demand import Demand
from scheduler.allocation.executor_room import Site
from scheduler.allocation.holdings import below_at, room_beside
from scheduler.allocation.supply import Supply
from scheduler.core.fairshare import Grant, WaitingLine
from scheduler.core.fit import Room
from scheduler.core.placement import MOST_REFUSALS
from scheduler.locks import claim_waiting_sessions
from scheduler.models import Executor, Placement
from sessions_app.in_force.quotas import quotas_lock
from sessions_app.locks import LockedSession


class Claimed(NamedTuple):
    """A session that the round has locked, and where it may run."""

    session: LockedSession
    key: int
    """The scheduling key of its line."""
    nodes: list[str]
    """The planned nodes if it is bound to them, one a rank; else empty."""
    template: str
    """The node template of which the cluster has to add nodes for it; "" for none."""
    avoided: str
    """The node that it avoids; "" for none."""
    left_out: list[str]
    """Where no nodes are named: suspect nodes and those in quarantine, and for a session that waits
    for nodes of a template those that are kept free for others."""
    suspects: dict[str, Any]
    """The facts about suspect nodes for its event."""

    @property
    def id(self) -> UUID:
        """Return the session's id."""
        return self.session.id


class Claims:
    """The sessions that a round has locked so far.

    A claim locks as many sessions of each line as were granted. It skips sessions that another
    transaction has locked and takes the next ones of the line, so that rounds of several executors
    do not wait for each other.
    """

    def __init__(self, executor: Executor, demand: Demand):
        self._executor = executor
        self._demand = demand
        self._given: Counter[tuple[int, int]] = Counter()
        self.sessions: list[Claimed] = []

    @property
    def ids(self) -> set[str]:
        """Return the ids of the sessions."""
        return {str(each.id) for each in self.sessions}

    def count(self, queue_id: int, line: WaitingLine) -> int:
        """Return the number of sessions that a line has given."""
        return self._given[queue_id, line.key]

    def taken(self) -> Iterator[tuple[int, Amounts]]:
        """Yield the queue and the amounts of each session."""
        for (queue_id, key), count in self._given.items():
            yield from repeat((queue_id, self._demand.wishes[key].taken), count)

    def room_left(self, supply: Supply) -> Room:
        """Return the room of the executor that leases and these sessions leave."""
        room, below = room_beside(self._executor, supply.leases), below_at(self._executor)
        placing = {queue.id: queue.placing for queue in self._demand.queues}
        for each in self.sessions:
            under = below.under(placing[each.session.queue_id])
            ask = self._demand.wishes[each.key].ask_on(under)
            room.take(ask, nodes=each.nodes, template=each.template)
        return room

    def claim(self, site: Site, grants: Sequence[Grant], kept: Collection[str]) -> int:
        """Lock the sessions of grants. Return the number locked.

        `kept` are the nodes that are kept free for others.
        """
        counts = Counter((grant.claimant.queue, grant.line) for grant in grants)
        locked = claim_waiting_sessions(
            [(queue, line.key, count) for (queue, line), count in counts.items()],
            passed=[each.id for each in self.sessions],
        )
        found = {line: iter(each) for (_, line), each in zip(counts, locked, strict=True)}
        for claimant, line in grants:
            claimed = self._claimed(site, line, next(found[line], None), kept)
            if claimed is not None:
                self.sessions.append(claimed)
                self._given[claimant.queue, line.key] += 1
                counted = self._demand.wishes[line.key].counted
                self._demand.quotas.take(claimed.session.project_id, counted)
        return sum(len(each) for each in locked)

    def _claimed(
        self, site: Site, line: WaitingLine, session: LockedSession | None, kept: Collection[str]
    ) -> Claimed | None:
        """Return the session with its place; None if another round was faster."""
        plan = site.planned(line)
        if session is None:
            return None
        nodes = list(plan.nodes) if self._names_nodes(session) else []
        # Only the cluster knows which node a session gets that waits for one to be added.
        left_out = [] if nodes else site.nodes_left_out(line, kept if plan.template else ())
        avoided, suspects = site.node_avoided(line), site.suspects_met(line, nodes)
        return Claimed(session, line.key, nodes, plan.template, avoided, left_out, suspects)

    def _names_nodes(self, session: LockedSession) -> bool:
        """Return whether the session is bound to its nodes; not after too many refused plans."""
        refused = session.placement_refusals or 0
        return self._executor.placement == Placement.NODE and refused < MOST_REFUSALS

    def admit(self) -> list[Claimed]:
        """Keep only the sessions that quotas still allow. Return the others.

        The quotas were read without a lock, because a lock would block everything else in the
        project. Meanwhile another executor may have used them up.
        """
        if not self._demand.quotas or not self.sessions:
            return []
        quotas = quotas_lock({each.session.project_id for each in self.sessions})
        admitted, refused = [], []
        for each in self.sessions:
            counted = self._demand.wishes[each.key].counted
            if quotas.held(each.session.project_id, counted) is None:
                quotas.take(each.session.project_id, counted)
                admitted.append(each)
            else:
                refused.append(each)
        self.sessions = admitted
        return refused
