"""What plans of preemption are made of: who waits for room, who runs where, and the shares."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from podspec.resources import Amounts
from scheduler.allocation.queue_usage import amounts_used
from scheduler.allocation.round import queue_limit
from scheduler.allocation.waiting_lines import (
    BusyQueue,
    Reading,
    Wish,
    amounts_of,
    heads_read,
    wishes_of,
)
from scheduler.core.fairshare import Limit, WaitingLine, cost
from scheduler.core.fit import Ask, Avoid, Room
from scheduler.core.preemption import Running, Taker, seconds_lost
from scheduler.models import Executor
from sessions_app.core.priorities import unfolded
from sessions_app.core.quotas import Quotas
from sessions_app.models import PriorityClass


class Head(NamedTuple):
    """The first waiting session of a line that an empty executor could run, but this one cannot."""

    id: UUID
    project_id: int
    taker: Taker
    avoid: Avoid

    @property
    def made_at(self) -> float:
        """Return when it was created, in seconds since the epoch: a UUIDv7 begins with them."""
        return (self.id.int >> 80) / 1000


class Candidate(NamedTuple):
    """A session that may make room, with the token of its lease."""

    running: Running
    fencing_token: int


def heads_without_room(
    executor: Executor, room: Room, queues: Sequence[BusyQueue], quotas: Quotas, pool: Amounts
) -> list[Head]:
    """Return the heads of lines that wait for nothing but room here, in their order: the highest
    class first, then the oldest."""
    wishes = wishes_of(queues)
    limited = {queue.id for queue in queues if queue.resource_limits}
    used = amounts_used(queues=limited) if limited else {}
    lines: list[tuple[BusyQueue, WaitingLine, Avoid]] = []
    for queue in queues:
        limits = [queue_limit(queue.resource_limits, used.get(queue.id, {}))]
        limits += [
            Limit("", {quota.name: quota.limit - quota.used})
            for quota in quotas.of(queue.project_id)
        ]
        for key in queue.keys:
            wish = wishes.get(key)
            if wish is None or any(limit.exceeded_by(wish.taken) for limit in limits):
                continue
            avoid = _waits_for_room(executor, room, wish)
            if avoid is not None:
                line = WaitingLine(key, wish.retry, wish.taken, cost(wish.taken, pool))
                lines.append((queue, line, avoid))
    return _heads(lines, wishes)


def _waits_for_room(executor: Executor, room: Room, wish: Wish) -> Avoid | None:
    """Return what the wish avoids here if it waits for room; None if it does not, or never fits."""
    if executor.name in wish.avoid_executors:
        return None
    node = wish.node_avoided_on(executor.name) if wish.node else ""
    avoid: Avoid = executor.suspect_nodes | {node} if node else executor.suspect_nodes
    misfit = room.misfit(wish.ask, avoid)
    return avoid if misfit is not None and misfit.ever else None


def _heads(
    lines: Sequence[tuple[BusyQueue, WaitingLine, Avoid]], wishes: Mapping[int, Wish]
) -> list[Head]:
    if not lines:
        return []
    heads_read([Reading(queue.id, line, 0, 1) for queue, line, _ in lines])
    found = []
    for queue, line, avoid in lines:
        if line.heads:
            order = line.heads[0]
            rank = unfolded(-order.negative_priority).rank
            taker = Taker(queue.id, rank, wishes[line.key].ask, line.size)
            found.append(Head(order.id, queue.project_id, taker, avoid))
    return sorted(found, key=lambda each: (-each.taker.rank, each.made_at, each.id))


# Of several pods only one node is ever reported, so that gangs without planned nodes are left out.
_RUNNING = """
    SELECT s.id, l.fencing_token, s.queue_id, s.priority, c.resources::text, c.cluster_size,
        CASE WHEN s.node <> '' AND c.cluster_size = 1
            THEN jsonb_build_array(s.node)::text ELSE coalesce(l.nodes::text, '[]') END,
        extract(epoch FROM %(now)s - coalesce(s.started_at, %(now)s))::float8, l.progress::text
    FROM scheduler_lease l
    JOIN sessions_app_session s ON s.id = l.session_id AND s.fencing_token = l.fencing_token
    JOIN sessions_app_session r ON r.id = s.root_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE l.executor_id = %(executor)s AND s.phase = 'live' AND s.status <> 'TERMINATING'
        AND s.session_type = 'batch' AND s.preempt_requested_at IS NULL
        AND s.start_failure IS NULL AND r.cancel_requested_at IS NULL AND l.lost_at IS NULL
"""


def candidates(executor: Executor, now: datetime, pool: Amounts) -> list[Candidate]:
    """Return the sessions of an executor that may make room, by their classes."""
    protections = {
        each.value: each.protected_for if each.preemptible else None
        for each in PriorityClass.objects.all()
    }
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING, {"now": now, "executor": executor.pk})
        rows = cursor.fetchall()
    found = []
    for session_id, token, queue, stored, resources, pods, nodes, ran, progress in rows:
        rank = unfolded(stored).rank
        protected_for = protections.get(rank, 0.0)
        names = tuple(json.loads(nodes))
        if protected_for is None or (ran and ran < protected_for) or len(names) != pods:
            continue
        ask = Ask(amounts_of(resources), pods)
        lost = pods * seconds_lost(ran, json.loads(progress) if progress else {})
        one = Running(session_id, queue, rank, ask, names, cost(ask.whole, pool), lost)
        found.append(Candidate(one, token))
    return found


_SINCE = """
    WITH gone AS (
        DELETE FROM scheduler_queuebelow WHERE queue_id <> ALL(%(queues)s::bigint[])
    )
    INSERT INTO scheduler_queuebelow (queue_id, since)
    SELECT q, %(now)s FROM unnest(%(queues)s::bigint[]) AS q
    ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id
    RETURNING queue_id, since
"""


def below_since(queues: Collection[int], now: datetime) -> dict[int, datetime]:
    """Remember the queues that hold too little now, and forget all others. Return since when."""
    with connection.cursor() as cursor:
        cursor.execute(_SINCE, {"queues": sorted(queues), "now": now})
        return dict(cursor.fetchall())
