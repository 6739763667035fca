"""What waits for the executor of a round."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.allocation.waiting_lines import BusyQueue, Wish, wishes_of
from sessions_app.core.quotas import Quotas
from sessions_app.in_force.quotas import quotas_read


class Demand(NamedTuple):
    """The demand of one round. It is read without locks, so other rounds may have the same."""

    queues: Sequence[BusyQueue]
    wishes: Mapping[int, Wish]
    """The requests of the lines, by scheduling key; without lines that were emptied meanwhile."""
    quotas: Quotas
    """The quotas of these queues' projects, with what the round takes of them."""


def demand_of(queues: Sequence[BusyQueue], projects: list[int] | None) -> Demand:
    """Return the demand of queues, whose executor serves these projects; None: all."""
    quotas = quotas_read(projects, waiting=False, live=True)
    return Demand(queues, wishes_of(queues), quotas)
