"""The amounts that queues hold, their cost, and the decayed priority that remembers it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from base.podspec.quantity import parse
from base.podspec.resources import Amounts, total
from scheduler.allocation.holdings import Held, held_amounts
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
        AND (%(queues)s::bigint[] IS NULL OR s.queue_id = ANY(%(queues)s::bigint[]))
    GROUP BY s.queue_id, c.resources, c.cluster_size
"""


def amounts_used(queues: Collection[int] | None = None) -> dict[int, Amounts]:
    """Return the amounts that leases hold, by queue id; of all queues or of these."""
    wanted = {"queues": None if queues is None else array(queues)}
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


class UsageLevels(NamedTuple):
    """The usage of all queues in a round: the pool, the shares held now, decayed priorities."""

    pool: Amounts
    holds: Mapping[int, float]
    priorities: Mapping[int, float]

    def held(self, queue_id: int) -> float:
        """Return the share that the queue's live leases hold at this moment."""
        return self.holds.get(queue_id, FLOOR)

    def history(self, queue_id: int) -> float:
        """Return the decayed priority of a queue; 0.0 if it has no past."""
        return self.priorities.get(queue_id, 0.0)

    def left_beside(self, claiming: Iterable[int]) -> float:
        """Return the part of the pool that queues other than those `claiming` do not hold."""
        others = self.holds.keys() - set(claiming)
        return max(1.0 - sum(self.holds[each] for each in others), 0.0)


def usage_levels(
    own: Amounts, now: datetime, *, besides: tuple[int, Iterable[Held]] | None = None
) -> UsageLevels:
    """Return the usage of all queues that hold or held anything, as of now.

    `own` is the total of the asking executor: the pool is never less. `besides` is its id with its
    leases, if the caller has read them already.
    """
    known = Pool.objects.first()
    pool = dict(own)
    for name, value in known.amounts.items() if known else ():
        pool[name] = max(parse(value), pool.get(name, Decimal(0)))
    executor_id, leases = besides or (None, ())
    used = _used_now(executor_id, leases)
    remembered = QueueUsage.objects.order_by("queue")  # along its index
    priorities = {row.queue_id: _decayed(row, row.cost, now) for row in remembered}
    return UsageLevels(
        pool, {queue_id: cost(each, pool) for queue_id, each in used.items()}, priorities
    )


# The lease has what is needed: a join of all leases with their sessions takes ten times as long.
# A lease whose session was cancelled before it was accepted counts until its executor's next call
# or the sweep.
_USED_NOW = """
    SELECT g.* FROM scheduler_executor x CROSS JOIN LATERAL (
        SELECT l.queue_id, l.scheduling_key, count(*) FROM scheduler_lease l
        WHERE l.executor_id = x.id GROUP BY 1, 2) AS g
    WHERE x.id <> %(without)s
"""
_SIZES = """
    SELECT v.key, c.resources::text, c.cluster_size
    FROM (SELECT DISTINCT ON (scheduling_key) scheduling_key, session_id FROM scheduler_lease
        WHERE scheduling_key = ANY(%s::bigint[])) v(key, session_id)
    JOIN sessions_app_session s ON s.id = v.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
"""
_MOST_SIZES = 20_000
_sizes: dict[int, tuple[str, int]] = {}
"""Resources and pods by scheduling key. They never expire: the key determines both."""


def _used_now(executor_id: int | None, leases: Iterable[Held]) -> dict[int, Amounts]:
    """Return the amounts that leases hold, by queue id: these of one executor, and all others."""
    parts: dict[int, list[Amounts]] = defaultdict(list)
    for each in leases:
        parts[each.queue_id].append(each.taken)
    with connection.cursor() as cursor:
        cursor.execute(_USED_NOW, {"without": executor_id or 0})
        rows = cursor.fetchall()
    sizes = _sizes_of({key for _, key, _ in rows})
    for queue_id, key, count in rows:
        if key in sizes:
            parts[queue_id].append(held_amounts(*sizes[key], count))
    return {queue_id: total(each) for queue_id, each in parts.items()}


def _sizes_of(keys: set[int]) -> Mapping[int, tuple[str, int]]:
    known = {key: _sizes[key] for key in keys if key in _sizes}
    if unknown := keys - known.keys():
        if len(_sizes) > _MOST_SIZES:
            _sizes.clear()
        with connection.cursor() as cursor:
            cursor.execute(_SIZES, [array(unknown)])
            found = {key: (resources, pods) for key, resources, pods in cursor.fetchall()}
        _sizes.update(found)
        known |= found
    return known
