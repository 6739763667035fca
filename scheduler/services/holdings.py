"""What an executor holds, and the room that this leaves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection

from retry.resources import Amounts
from scheduler.fit import Ask, Room
from scheduler.services.lines import ONE, amounts_of
from sessions_app.bulk import array
from sessions_app.quotas import SESSIONS

# Those of whom it is known where they run come first: the others are given what is left.
_HELD = """
    SELECT l.executor_id, s.queue_id, s.retry_count > 0, s.node, c.resources::text,
        c.cluster_size, count(*)
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE l.executor_id = ANY(%s::bigint[])
        AND s.fencing_token = l.fencing_token AND s.phase = 'live'
    GROUP BY 1, 2, 3, 4, 5, 6
    ORDER BY 1, 4 DESC, 2, 3, 5, 6
"""


class Held(NamedTuple):
    """Leases of an executor that are alike."""

    queue_id: int
    retry: bool
    node: str
    resources: str
    pods: int
    leases: int

    @property
    def ask(self) -> Ask:
        """What each of them takes."""
        return Ask(amounts_of(self.resources), self.pods)

    @property
    def taken(self) -> Amounts:
        """What all of them take together."""
        taken = {name: value * self.leases for name, value in self.ask.whole.items()}
        return {**taken, SESSIONS: ONE * self.leases}


def leases_held(*executor_ids: int) -> dict[int, list[Held]]:
    """What the leases of executors that count hold, by executor."""
    held: dict[int, list[Held]] = {each: [] for each in executor_ids}
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [array(executor_ids)])
        for executor_id, *row in cursor.fetchall():
            held[executor_id].append(Held._make(row))
    return held


def room_beside(nodes: Sequence[Mapping[str, Any]], held: Sequence[Held]) -> Room:
    """What is free on nodes beside what is held."""
    room = Room(nodes, ())
    for each in held:
        for _ in range(each.leases):
            room.take(each.ask, node=each.node)
    return room
