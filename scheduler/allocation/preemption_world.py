"""What plans of preemption are made of: who waits for room, who runs where, and the shares."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from base.podspec.resources import Amounts
from scheduler.allocation.holdings import below_at, held_amounts, taken_amounts
from scheduler.allocation.limits import LimitsSeen
from scheduler.allocation.waiting_lines import (
    MOST_HEADS,
    RELEASED,
    BusyQueue,
    Reading,
    Wish,
    amounts_of,
    heads_read,
    wishes_of,
)
from scheduler.core.fairshare import WaitingLine, cost
from scheduler.core.fit import Ask, Avoid, Room
from scheduler.core.preemption import Running, Taker, seconds_lost
from scheduler.models import Executor
from sessions_app.core.priorities import unfolded
from sessions_app.db.bulk import array
from sessions_app.models import PriorityClass


class Head(NamedTuple):
    """A session near the head of a line that an empty executor could run, but this one cannot."""

    id: UUID
    project_id: int
    key: int
    """The scheduling key of its line."""
    taker: Taker
    taken: Amounts
    """The amounts that it will take from the limits of its queue and from quotas."""
    avoid: Avoid

    @property
    def made_at(self) -> float:
        """Return when it was created, in seconds since the epoch: a UUIDv7 begins with them."""
        return (self.id.int >> 80) / 1000


class Candidate(NamedTuple):
    """A session that may make room, with the token of its lease."""

    running: Running
    fencing_token: int
    grace: float
    """The seconds that it may take to stop."""


class Free(NamedTuple):
    """The free room of an executor, and its free session slots."""

    room: Room
    slots: int
    pool: Amounts
    """The total that sizes are shares of."""


class _Line(NamedTuple):
    """A line that waits for nothing but room: what its sessions ask for, and avoid, here."""

    queue: BusyQueue
    line: WaitingLine
    ask: Ask
    avoid: Avoid


def heads_without_room(
    executor: Executor, free: Free, queues: Sequence[BusyQueue], limits: LimitsSeen, most: int
) -> list[list[Head]]:
    """Return the first sessions of lines that wait for nothing but room here, at most `most` of
    each, in their order."""
    wishes = wishes_of(queues)
    lines: list[_Line] = []
    below = below_at(executor)
    for queue in queues:
        for key in queue.keys:
            wish = wishes.get(key)
            if wish is None or limits.exceeded(queue.id, wish.taken):
                continue
            ask = wish.ask_on(below.under(queue.placing))
            avoid = _waits_for_room(executor, free, wish, ask)
            if avoid is not None:
                line = WaitingLine(key, wish.retry, wish.taken, cost(wish.taken, free.pool))
                lines.append(_Line(queue, line, ask, avoid))
    return _heads(lines, most)


def _waits_for_room(executor: Executor, free: Free, wish: Wish, ask: Ask) -> Avoid | None:
    """Return what the wish avoids here if it waits for room or for a session slot; None if it does
    not, or never fits."""
    if executor.name in wish.avoid_executors or not wish.takes(executor.labels):
        return None
    node = wish.node_avoided_on(executor.name) if wish.node else ""
    avoid: Avoid = executor.suspect_nodes | {node} if node else executor.suspect_nodes
    misfit = free.room.misfit(ask, avoid)
    waits = free.slots < 1 if misfit is None else misfit.ever
    return avoid if waits else None


def _heads(lines: Sequence[_Line], most: int) -> list[list[Head]]:
    if not lines:
        return []
    wanted = min(most, max(MOST_HEADS // len(lines), 2))
    heads_read([Reading(queue.id, line, 0, wanted) for queue, line, *_ in lines])
    found = []
    for queue, line, ask, avoid in lines:
        heads = []
        for order in line.heads:
            rank = unfolded(-order.negative_priority).rank
            taker = Taker(queue.id, rank, ask, line.size)
            heads.append(Head(order.id, queue.project_id, line.key, taker, line.amounts, avoid))
        found.append(heads)
    return [heads for heads in found if heads]


_RELEASED = f"SELECT v.id FROM unnest(%(sessions)s::uuid[]) AS v(id) WHERE {RELEASED}"


def released_since(heads: Collection[Head], since: datetime) -> set[UUID]:
    """Return those that waited for dependencies until later than `since`, by id."""
    if not heads:
        return set()
    wanted: dict[str, Any] = {"sessions": array(each.id for each in heads), "since": since}
    with connection.cursor() as cursor:
        cursor.execute(_RELEASED, wanted)
        return {row[0] for row in cursor.fetchall()}


# Of several pods only one node is ever reported.
_RUNNING = """
    SELECT s.id, l.fencing_token, s.queue_id, s.priority, c.resources::text, c.cluster_size,
        CASE WHEN s.node <> '' AND c.cluster_size = 1
            THEN jsonb_build_array(s.node)::text ELSE coalesce(l.nodes::text, '[]') END,
        extract(epoch FROM %(now)s - coalesce(s.started_at, %(now)s))::float8, l.progress::text,
        c.termination_grace_period
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
    for session_id, token, queue, stored, resources, pods, nodes, ran, progress, grace in rows:
        rank = unfolded(stored).rank
        protected_for = protections.get(rank, 0.0)
        names = tuple(json.loads(nodes))
        if protected_for is None or (ran and ran < protected_for):
            continue
        ask = Ask(amounts_of(resources), pods)
        lost = pods * seconds_lost(ran, json.loads(progress) if progress else {})
        known = names if len(names) == pods else ()
        one = Running(session_id, queue, rank, ask, known, _size(resources, pods, pool), lost)
        found.append(Candidate(one, token, grace))
    return found


def _size(resources: str, pods: int, pool: Amounts) -> float:
    return cost(held_amounts(resources, pods, 1), pool)


class Moved(NamedTuple):
    """A session of a plan that is not over, on the executor of the plan."""

    executor: int
    queue: int
    size: float
    taken: Amounts
    """The amounts that it takes from the limits of its queue and from quotas."""


class Underway(NamedTuple):
    """The plans of earlier sweeps that are not over: their takers wait, their victims stop."""

    takers: dict[UUID, Moved]
    victims: dict[UUID, Moved]

    def changes(self) -> list[tuple[int, float]]:
        """Return by how much each queue will hold more or less: (queue, size)."""
        more = [(each.queue, each.size) for each in self.takers.values()]
        return more + [(each.queue, -each.size) for each in self.victims.values()]

    def slots(self, executor: int) -> int:
        """Return how many session slots will become free on an executor; negative: be taken."""
        stopping = sum(each.executor == executor for each in self.victims.values())
        return stopping - sum(each.executor == executor for each in self.takers.values())


# A victim that still stops after an hour counts as running again. But while room is kept for its
# taker, which may be longer if a grace period is, the plan is underway.
_UNDERWAY = """
    SELECT p.dry_run, p.executor_id, p.taker_id, t.queue_id, tc.resources::text, tc.cluster_size,
        p.victim_id, v.queue_id, vc.resources::text, vc.cluster_size
    FROM scheduler_preemption p
    LEFT JOIN sessions_app_session t ON t.id = p.taker_id AND t.phase = 'waiting'
    LEFT JOIN sessions_app_sessionspec tc ON tc.id = t.spec_id
    LEFT JOIN sessions_app_session v ON v.id = p.victim_id AND v.phase = 'live'
        AND (p.dry_run OR v.gave_way_to = p.taker_id)
    LEFT JOIN sessions_app_sessionspec vc ON vc.id = v.spec_id
    WHERE p.executor_id IS NOT NULL AND (p.planned_at > %(now)s - interval '1 hour'
            OR p.taker_id = ANY(ARRAY(SELECT session_id FROM scheduler_reservation)))
        AND (p.until > %(now)s OR (v.status = 'TERMINATING' AND NOT p.dry_run))
"""


def plans_underway(now: datetime, pool: Amounts) -> tuple[Underway, Underway]:
    """Return the plans that are being carried out, and those of dry runs."""
    found: tuple[Underway, Underway] = Underway({}, {}), Underway({}, {})
    with connection.cursor() as cursor:
        cursor.execute(_UNDERWAY, {"now": now})
        for dry, executor, *sides in cursor.fetchall():
            takers, victims = found[dry]
            for side, known in ((sides[:4], takers), (sides[4:], victims)):
                session, queue, resources, pods = side
                if queue is not None:
                    taken = taken_amounts(resources, pods)
                    known[session] = Moved(executor, queue, cost(taken, pool), taken)
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
