"""Ended chains with all their attempts, for figures that no roll-up has."""

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection

from sessions_app.core.errors import TooLarge
from sessions_app.core.retry_worth import Attempt
from sessions_app.db.bulk import array

MOST = 100_000
"""Maximum number of chains that are looked at, and of attempts that are read."""

ATTEMPT = """
    a.retry_count, a.status, a.started_at, a.finished_at, a.retry_cause, coalesce(d.rule, ''),
    a.failure_signature, q.name, coalesce(u.username, ''), coalesce(c.image, ''), a.node,
    (a.progress->>'step')::float8, (a.progress->>'checkpoint_step')::float8, a.executor
"""
"""The fields of an `Attempt` in SQL, of a session `a` with `JOINS`."""
JOINS = """
    JOIN sessions_app_queue q ON q.id = a.queue_id
    LEFT JOIN sessions_app_sessionspec c ON c.id = a.spec_id
    LEFT JOIN auth_user u ON u.id = a.owner_id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = a.id
"""
# The index of ended chains is of all projects: what one call reads of it has a bound.
_ENDED = """
    SELECT root_id, retry_state, project_id FROM sessions_app_session
    WHERE resting IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')
        AND finished_at >= (%(since)s::date)::timestamp AT TIME ZONE 'UTC'
        AND finished_at < (%(until)s::date)::timestamp AT TIME ZONE 'UTC'
    ORDER BY finished_at LIMIT %(most)s + 1
"""
_COUNT = f"SELECT count(*) FROM ({_ENDED}) AS ended"
# The chains with an attempt that has all values; an argument that is null is no condition.
_ATTEMPTS = f"""
    WITH ended AS MATERIALIZED ({_ENDED}), wanted AS (
        SELECT DISTINCT e.root_id, e.retry_state FROM ended e
        JOIN sessions_app_session a ON a.root_id = e.root_id {JOINS}
        WHERE e.project_id = ANY(%(projects)s::bigint[])
            AND (%(queue)s::text IS NULL OR q.name = %(queue)s)
            AND (%(owner)s::text IS NULL OR u.username = %(owner)s)
            AND (%(image)s::text IS NULL OR c.image = %(image)s)
            AND (%(node)s::text IS NULL OR %(node)s IN (a.node, a.executor || '/' || a.node))
            AND (%(cause)s::text IS NULL OR a.status = 'ERROR' AND a.retry_cause = %(cause)s)
            AND (%(rule)s::text IS NULL OR d.rule = %(rule)s)
            AND (%(policy)s::text IS NULL OR starts_with(d.rule, %(policy)s || '/'))
            AND (%(signature)s::text IS NULL OR a.failure_signature = %(signature)s))
    SELECT w.root_id, w.retry_state, {ATTEMPT} FROM wanted w
    JOIN sessions_app_session a ON a.root_id = w.root_id {JOINS}
    ORDER BY w.root_id, a.retry_count LIMIT %(most)s + 1
"""


class Ended(NamedTuple):
    """An ended chain: its retry state, and all its attempts in order."""

    state: str
    attempts: Sequence[Attempt]


def ended_chains(
    projects: Sequence[int], since: date, until: date, having: dict[str, str | None]
) -> Iterator[Ended]:
    """Yield the chains whose last attempt ended from one day to before another.

    Only those with an attempt that has all values of `having`: by the name of each dimension, None
    for any. Two statements. Raises `TooLarge`.
    """
    asked: dict[str, Any] = {"since": since, "until": until, "most": MOST}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, asked)
        (chains,) = cursor.fetchone()
        _refuse(chains, "chains ended, in all projects together,")
        cursor.execute(_ATTEMPTS, {**asked, **having, "projects": array(projects)})
        rows = cursor.fetchall()
    _refuse(len(rows), "attempts are in it")
    for (_, state), chain in groupby(rows, key=lambda row: row[:2]):
        yield Ended(state, [Attempt._make(row[2:]) for row in chain])


def _refuse(found: int, what: str) -> None:
    if found > MOST:
        raise TooLarge(
            f"more than {MOST:,} {what} in this time: ask for fewer days, or for one filter alone, "
            "by it or by day"
        )
