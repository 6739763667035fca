"""What an executor holds, and the room that this leaves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection

from scheduler.fit import Amounts, Ask, Room
from scheduler.services.lines import ONE, SESSIONS, amounts_of

# Those of whom it is known where they run come first: the others are given what is left.
_HELD = """
    SELECT s.queue_id, s.retry_count > 0, s.node, c.resources::text, c.cluster_size, count(*)
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE l.executor_id = %s AND s.fencing_token = l.fencing_token AND s.phase = 'live'
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 3 DESC, 1, 2, 4, 5
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


def leases_held(executor_id: int) -> list[Held]:
    """What the leases of an executor that count hold."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [executor_id])
        return [Held._make(row) for row in cursor.fetchall()]


def room_beside(nodes: Sequence[Mapping[str, Any]], held: Sequence[Held]) -> Room:
    """What is free on nodes beside what is held."""
    room = Room(nodes, ())
    for each in held:
        for _ in range(each.leases):
            room.take(each.ask, node=each.node)
    return room
