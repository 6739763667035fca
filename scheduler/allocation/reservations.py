"""Reservations: the nodes that rounds keep free for starved sessions, one row a session."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from base.podspec.resources import Amounts
from scheduler.allocation.holdings import taken_amounts
from scheduler.allocation.waiting_lines import RELEASED, amounts_of
from scheduler.core.fairshare import cost
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
    """True: running sessions make room for it here. False: it is starved."""
    limited_since: datetime | None
    """Since when only a limit or a quota holds it back, as rounds before have found."""


# A reservation on an executor that cannot start anything now is nobody's.
_OPEN = "x.last_seen_at >= %(alive)s AND NOT x.cordoned AND x.trouble = ''"
_MADE_ROOM = """
    SELECT FROM scheduler_preemption p
    WHERE p.taker_id = s.id AND NOT p.dry_run AND p.until > clock_timestamp()
        AND p.executor_id =
"""
_WAITING = f"""
    SELECT s.id::text, s.queue_id, s.scheduling_key, c.resources::text, c.cluster_size,
        EXISTS ({_MADE_ROOM} r.executor_id), r.limited_since
    FROM scheduler_reservation r JOIN sessions_app_session s ON s.id = r.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE r.executor_id = ANY(%(executors)s::bigint[])
        AND s.phase = 'waiting' AND s.scheduling_key IS NOT NULL
"""
_IN_ORDER = "ORDER BY s.priority DESC, s.root_submitted_at, s.retry_count = 0, s.root_id"
# Of a session that has room on two executors, one keeps it: another one was silent or cordoned
# when the second reserved, or others make room there.
_TAKERS = f"""
    {_WAITING} AND (EXISTS ({_MADE_ROOM} r.executor_id) OR NOT EXISTS (
        SELECT FROM scheduler_reservation o JOIN scheduler_executor x ON x.id = o.executor_id
        WHERE o.session_id = s.id AND o.executor_id <> r.executor_id AND {_OPEN}
            AND (o.id < r.id OR EXISTS ({_MADE_ROOM} o.executor_id))))
    {_IN_ORDER}
"""


def takers_waiting(executor_ids: Collection[int]) -> dict[str, Taker]:
    """Return the sessions with a reservation on these executors that still wait, by id."""
    return _takers(_WAITING, {"executors": array(executor_ids)})


def takers_of(executor: Executor, alive: datetime) -> dict[str, Taker]:
    """Return the sessions with a reservation on an executor that still wait, by id, in their order.

    Left out are those that have room kept on another executor that was heard since `alive`.
    """
    return _takers(_TAKERS, {"executors": [executor.pk], "alive": alive})


def _takers(query: str, parameters: dict[str, Any]) -> dict[str, Taker]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return {
            key: Taker(queue, line, Ask(amounts_of(resources), pods), preempts, since)
            for key, queue, line, resources, pods, preempts, since in cursor.fetchall()
        }


_STARVED = f"""
    SELECT v.id FROM unnest(%(sessions)s::uuid[]) AS v(id)
    WHERE NOT EXISTS (
        SELECT FROM scheduler_reservation r JOIN scheduler_executor x ON x.id = r.executor_id
        WHERE r.session_id = v.id AND r.executor_id <> %(executor)s AND {_OPEN})
    AND NOT {RELEASED}
"""


def starved(
    session_ids: Iterable[UUID], executor: Executor, *, since: datetime, alive: datetime
) -> set[UUID]:
    """Return those of the sessions that do not wait for dependencies since `since`, and for whom no
    room is kept on another executor that was heard since `alive`."""
    wanted: dict[str, Any] = {"executor": executor.pk, "since": since, "alive": alive}
    with connection.cursor() as cursor:
        cursor.execute(_STARVED, {**wanted, "sessions": array(session_ids)})
        return {row[0] for row in cursor.fetchall()}


_KEPT_ELSEWHERE = f"""
    SELECT s.queue_id, c.resources::text, c.cluster_size, count(DISTINCT s.id)
    FROM scheduler_reservation r JOIN scheduler_executor x ON x.id = r.executor_id
    JOIN sessions_app_session s ON s.id = r.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE r.executor_id <> %(executor)s AND {_OPEN} AND s.phase = 'waiting'
        AND NOT EXISTS ({_MADE_ROOM} r.executor_id)
    GROUP BY 1, 2, 3
"""


def parts_kept_elsewhere(
    executor: Executor, pool: Amounts, alive: datetime
) -> list[tuple[int, float]]:
    """Return the parts of the pool that other executors keep for starved sessions, with the queues
    of these.

    Those not heard since `alive` and those that can start nothing now keep it for nobody.
    """
    with connection.cursor() as cursor:
        cursor.execute(_KEPT_ELSEWHERE, {"executor": executor.pk, "alive": alive})
        rows = cursor.fetchall()
    return [(queue, n * cost(taken_amounts(text, pods), pool)) for queue, text, pods, n in rows]


_GONE = """
    DELETE FROM scheduler_reservation WHERE executor_id = %s AND session_id = ANY(%s::uuid[])
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
        if gone := before.keys() - now.keys():
            cursor.execute(_GONE, [executor.pk, array(gone)])
        if changed:
            cursor.execute(_KEPT, [executor.pk, *columns(changed)])


_LIMITED = """
    UPDATE scheduler_reservation r SET limited_since = v.since
    FROM unnest(%s::uuid[], %s::timestamptz[]) AS v(session_id, since)
    WHERE r.executor_id = %s AND r.session_id = v.session_id
"""


def limited_write(executor: Executor, changed: Mapping[str, datetime | None]) -> None:
    """Note since when only a limit holds back sessions that have a reservation; None: nothing."""
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_LIMITED, [*columns(list(changed.items())), executor.pk])


# A round that has read the reservations already leaves those that it does not know.
_RESTORE = """
    INSERT INTO scheduler_reservation (executor_id, session_id, nodes)
    SELECT DISTINCT ON (p.taker_id) p.executor_id, p.taker_id, p.nodes
    FROM scheduler_preemption p JOIN sessions_app_session s ON s.id = p.taker_id
    WHERE p.taker_id = ANY(%s::uuid[]) AND s.phase = 'waiting'
        AND p.executor_id IS NOT NULL AND NOT p.dry_run AND p.until > clock_timestamp()
    ORDER BY p.taker_id, p.id DESC
    ON CONFLICT DO NOTHING
"""


def reservations_restore(session_ids: Collection[UUID]) -> None:
    """Keep the room again that others have made for these sessions, whose leases came back."""
    if not session_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_RESTORE, [array(session_ids)])


def reservations_sweep() -> int:
    """Delete the reservations of sessions that wait no longer. Return their number."""
    with transaction.atomic():
        over = claim_reservations_over()
        Reservation.objects.filter(pk__in=over).delete()
    return len(over)
