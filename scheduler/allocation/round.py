"""Lease rounds: which waiting sessions an executor gets, by fair share, order and room."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from scheduler.allocation.alternatives import Alternatives
from scheduler.allocation.claims import Claimed, Claims
from scheduler.allocation.demand import demand_of
from scheduler.allocation.dividing import Divider
from scheduler.allocation.executor_room import Site
from scheduler.allocation.kept_room import KeptRoom
from scheduler.allocation.project_troubles import troubled_projects
from scheduler.allocation.scheduling_keys import scheduling_keys_assign
from scheduler.allocation.supply import Supply
from scheduler.allocation.waiting_lines import busy_queues
from scheduler.locks import waiting_lines_by_index
from scheduler.models import Executor

PASSES = 3
"""Passes of a round; the later ones replace sessions that another round claimed first."""


class Allocation(NamedTuple):
    """The sessions that a round has locked for an executor."""

    sessions: Sequence[Claimed] = ()
    within_quotas: bool = False
    """Whether quotas apply to some of them."""
    left_waiting: int = 0
    """Number of lines that wait for room here or are left to other executors."""


def allocate(executor: Executor, now: datetime) -> Allocation:
    """Lock the sessions that an executor gets in one round, at most `MAX_GRANTS`.

    The round reads what waits without locks, divides the free room, and only then locks sessions.
    """
    supply = Supply(executor, now)
    kept = KeptRoom(supply)
    scheduling_keys_assign()
    projects = list(executor.projects.values_list("pk", flat=True)) or None
    queues = busy_queues(projects, without=troubled_projects(executor))
    # Most rounds find that nothing waits: what the executor holds is read by the others.
    if not queues:
        kept.write()
        return Allocation()
    if not supply.slots:
        return Allocation()
    kept.show_lines(queues)
    demand = demand_of(queues, projects)
    claims = Claims(executor, demand)
    divider = Divider(demand, supply, kept, claims)
    with waiting_lines_by_index():
        _fill(supply, divider, kept, claims)
    kept.refused(str(each.id) for each in claims.admit())
    kept.leased(claims.ids)
    kept.write()
    return Allocation(claims.sessions, bool(demand.quotas), divider.left_waiting)


def _fill(supply: Supply, divider: Divider, kept: KeptRoom, claims: Claims) -> None:
    alternatives = Alternatives(supply.executor, supply.now)
    for _ in range(PASSES):
        kept.leased(claims.ids)
        site = Site(supply.executor, claims.room_left(supply), alternatives)
        grants = divider.divide(site)
        if not grants or claims.claim(site, grants, kept.nodes) == len(grants):
            return
