"""Reservations: the nodes that rounds keep free for starved sessions, one row a session."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from django.db import connection, transaction

from scheduler.allocation.waiting_lines import amounts_of
from scheduler.core.fit import Ask
from scheduler.locks import claim_reservations_over
from scheduler.models import Executor, Reservation
from sessions_app.db.bulk import array, columns, json_text

Reserved = Mapping[str, list[str]]
"""Nodes by session id."""


class Taker(NamedTuple):
    """A waiting session that has a reservation: the line that it stands in, and its request."""

    queue_id: int
    key: int
    ask: Ask
    preempts: bool
    """True: running sessions make room for it. False: it is starved."""


_TAKERS = """
    SELECT s.id::text, s.queue_id, s.scheduling_key, c.resources::text, c.cluster_size,
        EXISTS (SELECT FROM scheduler_preemption p
            WHERE p.taker_id = s.id AND NOT p.dry_run AND p.until > clock_timestamp())
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[]) AND s.phase = 'waiting' AND s.scheduling_key IS NOT NULL
    ORDER BY s.priority DESC, s.root_submitted_at, s.id
"""


def takers_waiting(session_ids: Iterable[str]) -> dict[str, Taker]:
    """Return those of the sessions that still wait, by id, in their order."""
    wanted = list(session_ids)
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_TAKERS, [array(wanted)])
        return {
            key: Taker(queue, line, Ask(amounts_of(resources), pods), preempts)
            for key, queue, line, resources, pods, preempts in cursor.fetchall()
        }


_GONE = """
    DELETE FROM scheduler_reservation
    WHERE executor_id = %s AND session_id <> ALL(%s::uuid[])
"""
_KEPT = """
    INSERT INTO scheduler_reservation (executor_id, session_id, nodes)
    SELECT %s, v.session_id, v.nodes::jsonb
    FROM unnest(%s::uuid[], %s::text[]) AS v(session_id, nodes)
    ON CONFLICT (executor_id, session_id) DO UPDATE SET nodes = excluded.nodes
"""


def reservations_of(executor_ids: Collection[int]) -> dict[int, dict[str, list[str]]]:
    """Return the reservations of each executor."""
    found: dict[int, dict[str, list[str]]] = {each: {} for each in executor_ids}
    rows = Reservation.objects.filter(executor__in=executor_ids)
    for executor_id, session_id, nodes in rows.values_list("executor_id", "session_id", "nodes"):
        found[executor_id][str(session_id)] = nodes
    return found


def reservations_write(executor: Executor, before: Reserved, now: Reserved) -> None:
    """Make the reservations of an executor, which the caller has locked, those of `now`."""
    changed = [(key, json_text(nodes)) for key, nodes in now.items() if before.get(key) != nodes]
    with connection.cursor() as cursor:
        if before.keys() - now.keys():
            cursor.execute(_GONE, [executor.pk, array(now)])
        if changed:
            cursor.execute(_KEPT, [executor.pk, *columns(changed)])


def reservations_sweep() -> int:
    """Delete the reservations of sessions that wait no longer. Return their number."""
    with transaction.atomic():
        over = claim_reservations_over()
        Reservation.objects.filter(pk__in=over).delete()
    return len(over)
