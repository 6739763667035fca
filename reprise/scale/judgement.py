"""The results of one demonstration: totals, shares, and whether any session went wrong."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import array


@dataclass(frozen=True)
class Scope:
    """The chains of some projects that were submitted since a moment."""

    projects: Collection[int]
    since: datetime

    def ask(self, query: str, **more: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query over `mine`, the attempts of these chains."""
        mine = (
            "WITH mine AS NOT MATERIALIZED (SELECT * FROM sessions_app_session WHERE "
            "project_id = ANY(%(projects)s::bigint[]) AND root_submitted_at >= %(since)s) "
        )
        values = {"projects": array(self.projects), "since": self.since, **more}
        with connection.cursor() as cursor:
            cursor.execute(mine + query, values)
            return list(cursor.fetchall())


# One statement has one snapshot: two would miss a chain that changes its state in between.
_LEFT = """
    SELECT
        (SELECT count(*) FROM mine WHERE phase = 'waiting')
        + (SELECT count(*) FROM mine WHERE phase = 'live')
        + (SELECT count(*) FROM mine JOIN sessions_app_retrydecision d ON d.session_id = mine.id
            WHERE d.state = 'scheduled')
"""


def chains_left(scope: Scope) -> int:
    """Return how many chains have not ended."""
    ((count,),) = scope.ask(_LEFT)
    return int(count)


class Waiting(NamedTuple):
    """A chain that rests, and waits for a person: its newest attempt, and the image of that."""

    session_id: UUID
    root_id: UUID
    parked: bool
    """True if it is parked; if False, its retry is held."""
    image: str


def waiting_chains(scope: Scope) -> list[Waiting]:
    """Return the chains that are parked or whose retry is held, oldest first."""
    query = (
        "SELECT mine.id, mine.root_id, mine.retry_state = 'parked', s.image FROM mine "
        "JOIN sessions_app_sessionspec s ON s.id = mine.spec_id "
        "WHERE mine.tip AND mine.retry_state IN ('held', 'parked') ORDER BY 2"
    )
    return [Waiting(*row) for row in scope.ask(query)]


_CHECKS = {
    "were acknowledged and are not there": """
        SELECT count(*) FROM unnest(%(acknowledged)s::uuid[]) AS a(id)
        WHERE NOT EXISTS (SELECT FROM mine WHERE mine.id = a.id)""",
    "are there and were not acknowledged": """
        SELECT count(*) FROM mine WHERE retry_count = 0
        AND NOT id = ANY(%(acknowledged)s::uuid[])""",
    # A parked chain waits for a person, for as long as that takes.
    "have not ended": "SELECT count(*) FROM mine WHERE tip AND (phase <> 'final' OR retry_state "
    "NOT IN ('succeeded', 'exhausted', 'not_retried', 'cancelled', 'parked'))",
    "lack an attempt, or have one twice": """
        SELECT count(*) FROM (SELECT FROM mine GROUP BY root_id
        HAVING count(*) <> max(retry_count) + 1 OR count(DISTINCT retry_count) <> count(*)
            OR count(*) FILTER (WHERE tip) <> 1) AS broken""",
    "have a retry that is not the child of the attempt before": """
        SELECT count(*) FROM mine c LEFT JOIN mine p ON p.id = c.parent_id
        WHERE c.retry_count > 0 AND (p.id IS NULL OR p.root_id <> c.root_id
            OR p.retry_count <> c.retry_count - 1)""",
    "began an attempt before the one before had ended": """
        SELECT count(*) FROM mine c JOIN mine p ON p.id = c.parent_id
        WHERE c.created_at < p.finished_at""",
    "still have a lease": "SELECT count(*) FROM mine JOIN scheduler_lease l "
    "ON l.session_id = mine.id",
}


def astray(scope: Scope, acknowledged: Sequence[str]) -> list[str]:
    """Return what is wrong, a line for each kind; empty if every chain ended once."""
    found = []
    for what, query in _CHECKS.items():
        ((count,),) = scope.ask(query, acknowledged=array(acknowledged))
        if count:
            found.append(f"sessions that {what}: {count:,}")
    return found


class Totals(NamedTuple):
    """The totals of a demonstration; `seconds` is the time from the first lease to the last end."""

    sessions: int
    attempts: int
    succeeded: int
    exhausted: int
    not_retried: int
    seconds: float


def totals(scope: Scope) -> Totals:
    """Return the totals."""
    ended = ", ".join(
        f"count(*) FILTER (WHERE tip AND retry_state = '{state}')"
        for state in ("succeeded", "exhausted", "not_retried")
    )
    span = "extract(epoch FROM max(finished_at) - min(scheduled_at))::float8"
    query = f"SELECT count(*) FILTER (WHERE tip), count(*), {ended}, {span} FROM mine"
    (row,) = scope.ask(query)
    return Totals(*row)


class CauseRow(NamedTuple):
    """The number of attempts that failed for one cause, and what followed."""

    cause: str
    failed: int
    retried: int
    exhausted: int
    not_retried: int


def causes(scope: Scope) -> list[CauseRow]:
    """Return the causes, most frequent first."""
    states = ", ".join(
        f"count(*) FILTER (WHERE retry_state = '{state}')"
        for state in ("retried", "exhausted", "not_retried")
    )
    query = (
        f"SELECT retry_cause, count(*), {states} FROM mine "
        "WHERE retry_cause <> '' GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return [CauseRow(*row) for row in scope.ask(query)]


class ShareRow(NamedTuple):
    """The share of running time that the queues of one factor had, and the ideal share (of 1)."""

    factor: float
    queues: int
    share: float
    ideal: float


# Only the time in which fresh sessions waited in every queue: until one had started its last.
_SHARES = """
    , span AS (
        SELECT min(f.first) AS a, min(f.last) AS b FROM (
            SELECT min(scheduled_at) AS first, max(scheduled_at) AS last FROM mine
            WHERE retry_count = 0 GROUP BY queue_id) f
    )
    SELECT q.priority_factor, count(DISTINCT q.id), sum(extract(epoch FROM
        least(mine.finished_at, span.b) - greatest(mine.scheduled_at, span.a)))::float8
    FROM mine JOIN sessions_app_queue q ON q.id = mine.queue_id CROSS JOIN span
    WHERE mine.scheduled_at < span.b AND mine.finished_at > span.a
    GROUP BY 1 ORDER BY 1
"""


def shares(scope: Scope) -> list[ShareRow]:
    """Return the shares of running time by factor, while every queue had work."""
    rows = scope.ask(_SHARES)
    held = sum(row[2] for row in rows)
    weight = sum(queues / factor for factor, queues, _ in rows)
    if not held:
        return []
    return [
        ShareRow(factor, queues, had / held, queues / factor / weight)
        for factor, queues, had in rows
    ]
