"""The amounts that queues hold, their cost, and the decayed priority that remembers it."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from podspec.quantity import parse
from podspec.resources import Amounts, total
from scheduler.allocation.holdings import held_amounts
from scheduler.core.fairshare import FLOOR, cost, current_priority
from scheduler.core.fit import Room
from scheduler.locks import try_lock
from scheduler.models import Executor, Pool, QueueUsage
from sessions_app.core.quotas import SESSIONS
from sessions_app.db.bulk import array, json_array
from sessions_app.locks import AdvisoryLock, database_now

# Grouped by specification: there are few kinds among many sessions.
_USED = """
    SELECT s.queue_id, c.resources::text, c.cluster_size, count(*)
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.fencing_token = l.fencing_token AND s.phase = 'live'
        AND (%(since)s::timestamptz IS NULL OR l.granted_at > %(since)s)
        AND (%(queues)s::bigint[] IS NULL OR s.queue_id = ANY(%(queues)s::bigint[]))
    GROUP BY s.queue_id, c.resources, c.cluster_size
"""


def amounts_used(
    *, since: datetime | None = None, queues: Collection[int] | None = None
) -> dict[int, Amounts]:
    """Return the amounts that leases hold, by queue id; if given, of leases since `since`."""
    wanted = {"since": since, "queues": None if queues is None else array(queues)}
    parts: dict[int, list[Amounts]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_USED, wanted)
        for queue_id, resources, pods, count in cursor.fetchall():
            parts[queue_id].append(held_amounts(resources, pods, count))
    return {queue_id: total(each) for queue_id, each in parts.items()}


def pool_of(executors: Collection[tuple[list[dict[str, Any]], int]]) -> Amounts:
    """Return the total of executors, given as pairs of their nodes and their session limit."""
    return total(
        {**Room(nodes, ()).whole, SESSIONS: Decimal(sessions)} for nodes, sessions in executors
    )


def as_text(held: Amounts) -> dict[str, str]:
    """Return amounts as they are stored and shown: quantities without an exponent."""
    return {name: f"{value.normalize():f}" for name, value in sorted(held.items()) if value}


_ANYTHING = """
    SELECT EXISTS (SELECT FROM scheduler_lease) OR EXISTS (SELECT FROM scheduler_queueusage)
"""
_WRITE = """
    INSERT INTO scheduler_queueusage (queue_id, used, cost, current_priority, computed_at)
    SELECT q.id, v.used::jsonb, v.cost, v.current_priority, %s
    FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::float8[])
        AS v(queue_id, used, cost, current_priority)
    JOIN sessions_app_queue q ON q.id = v.queue_id
    ON CONFLICT (queue_id) DO UPDATE SET used = excluded.used, cost = excluded.cost,
        current_priority = excluded.current_priority, computed_at = excluded.computed_at
"""


class _Row(NamedTuple):
    queue_id: int
    used: dict[str, str]
    cost: float
    priority: float


def queue_usage_refresh() -> int:
    """Add up what all queues hold, and let their current priorities decay toward that cost.

    Return the number of queues written; 0 if another process does the same now, or if nothing runs
    and no usage is remembered.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ANYTHING)
        if not cursor.fetchone()[0]:
            return 0
    with transaction.atomic():
        if not try_lock(AdvisoryLock.QUEUE_USAGE):
            return 0
        now = database_now()
        rows = _rows(_pool_now(now), now)
        kept = [row for row in rows if row.used or row.priority > FLOOR]
        QueueUsage.objects.exclude(queue__in=[row.queue_id for row in kept]).delete()
        _write(kept, now)
    return len(kept)


def _pool_now(now: datetime) -> Amounts:
    """Return the total of the live executors, and store it for the lease rounds."""
    stale = now - timedelta(seconds=settings.REPRISE["executor_stale_after"])
    alive = Executor.objects.filter(last_seen_at__gte=stale)
    pool = pool_of(alive.values_list("nodes", "max_sessions"))
    Pool.objects.update_or_create(defaults={"amounts": as_text(pool), "computed_at": now})
    return pool


def _rows(pool: Amounts, now: datetime) -> list[_Row]:
    used = amounts_used()
    before = {row.queue_id: row for row in QueueUsage.objects.all()}
    rows = []
    for queue_id in sorted(used.keys() | before.keys()):
        held = used.get(queue_id, {})
        spent = cost(held, pool)
        priority = _decayed(before.get(queue_id), spent, now)
        rows.append(_Row(queue_id, as_text(held), spent, priority))
    return rows


def _decayed(before: QueueUsage | None, spent: float, now: datetime) -> float:
    """Return a queue's current priority at this cost; `FLOOR` without a stored one."""
    if before is None:
        return FLOOR
    seconds = (now - before.computed_at).total_seconds()
    half_time = settings.REPRISE["priority_half_time"]
    return current_priority(spent, before.current_priority, seconds, half_time)


def _write(rows: list[_Row], now: datetime) -> None:
    if rows:
        queues, used, costs, priorities = zip(*rows, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(
                _WRITE, [now, array(queues), json_array(used), array(costs), array(priorities)]
            )


class Standing(NamedTuple):
    """The usage of all queues in a round: the pool, and a level for each queue."""

    pool: Amounts
    levels: Mapping[int, float]

    def level(self, queue_id: int) -> float:
        """Return max(decayed, current) cost: the first lags, the second has no memory."""
        return self.levels.get(queue_id, FLOOR)


def queues_standing(own: Amounts, now: datetime) -> Standing:
    """Return the usage of all queues that hold or held anything, as of now.

    `own` is the total of the asking executor: the pool is never less. Leases granted since the
    usage was last added up count, too.
    """
    known = Pool.objects.first()
    pool = dict(own)
    for name, value in known.amounts.items() if known else ():
        pool[name] = max(parse(value), pool.get(name, Decimal(0)))
    granted = amounts_used(since=known.computed_at if known else None)
    held = {queue_id: cost(each, pool) for queue_id, each in granted.items()}
    priorities: dict[int, float] = {}
    for row in QueueUsage.objects.all():
        priorities[row.queue_id] = _decayed(row, row.cost, now)
        held[row.queue_id] = held.get(row.queue_id, 0.0) + row.cost
    levels = {
        queue_id: max(held.get(queue_id, 0.0), priorities.get(queue_id, FLOOR))
        for queue_id in held.keys() | priorities.keys()
    }
    return Standing(pool, levels)
