"""Reservations: the nodes that rounds keep free for starved sessions, one row a session."""

from collections.abc import Collection, Mapping

from django.db import connection, transaction

from scheduler.locks import claim_reservations_over
from scheduler.models import Executor, Reservation
from sessions_app.db.bulk import array, columns, json_text

Reserved = Mapping[str, list[str]]
"""Nodes by session id."""

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
