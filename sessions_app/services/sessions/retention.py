"""Retention: ended chains move from their rows into the log, and are later deleted from it.

A chain moves as a whole. Facts that are not in its events (owners, specifications, the reasons of
decisions, names of secrets) are written into one last event of each session, from which
`sessions_app/eventlog/archived.py` rebuilds it. Each function is one short transaction over one
slice. Concurrent runs are safe: rows that another one has locked are skipped.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from sessions_app.core.fold import DECISION_FACTS, FACTS
from sessions_app.db.bulk import array
from sessions_app.db.steps import atomic_step
from sessions_app.locks import CLAIM_LOGS, claim_archived, claim_ended, database_now
from sessions_app.models.events import ARCHIVED
from sessions_app.models.retries import TRACE

ATTEMPTS = 500
"""Maximum number of sessions that one transaction archives, or whose events it deletes; a single
chain may have more."""
CHUNKS = 200
"""Maximum number of log pieces that one transaction deletes: 50 MiB."""

# The chains that ended first, as many as have `ATTEMPTS` sessions together.
_ENDED = """
    SELECT root_id FROM (
        SELECT root_id, sum(retry_count + 1) OVER (ORDER BY finished_at, id) - retry_count - 1
            AS before
        FROM (SELECT id, root_id, retry_count, finished_at FROM sessions_app_session
            WHERE resting IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')
                AND finished_at < %s AND NOT root_id = ANY(%s::uuid[])
            ORDER BY finished_at, id LIMIT %s) AS first
    ) AS counted WHERE before < %s
"""
_DELETE_LOGS = f"DELETE FROM sessions_app_logchunk WHERE id IN ({CLAIM_LOGS})"
_ARCHIVE = f"""
    WITH chains AS (
        SELECT root_id, jsonb_agg(id ORDER BY retry_count) AS ids
        FROM sessions_app_session WHERE root_id = ANY(%(roots)s::uuid[]) GROUP BY root_id)
    INSERT INTO sessions_app_sessionevent
        (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    SELECT s.id, s.root_id, s.project_id, s.job_set, s.retry_count, s.event_seq + 1, %(type)s,
        %(now)s, jsonb_build_object('archive', jsonb_build_object(
            'session', to_jsonb(s) - %(facts)s::text[],
            'decision', to_jsonb(d) - %(decision_facts)s::text[]
                || jsonb_build_object('trace', {TRACE}),
            'spec', CASE WHEN s.parent_id IS NULL OR b.spec_id <> s.spec_id
                THEN to_jsonb(p) - 'secret_environ' END,
            'queue', q.name, 'chain', c.ids, 'cancel_requested_at', r.cancel_requested_at))
    FROM chains c
    JOIN sessions_app_session s ON s.root_id = c.root_id
    JOIN sessions_app_session r ON r.id = s.root_id
    LEFT JOIN sessions_app_session b ON b.id = s.parent_id
    JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    JOIN sessions_app_queue q ON q.id = s.queue_id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    LEFT JOIN sessions_app_retrytrace t ON t.session_id = d.session_id
    ORDER BY s.root_id, s.retry_count
    RETURNING session_id
"""


def chains_ended(before: datetime, without: Collection[UUID] = ()) -> list[UUID]:
    """Return the roots of the first chains that ended before a time, as many as one slice takes.

    `without` are the roots of chains that are left out.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [before, array(without), ATTEMPTS, ATTEMPTS])
        return [row[0] for row in cursor.fetchall()]


def logs_delete(roots: Sequence[UUID]) -> int:
    """Delete at most `CHUNKS` pieces of the logs of chains. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_LOGS, [array(roots), CHUNKS])
        return int(cursor.rowcount)


def chains_archive(roots: Sequence[UUID], before: datetime) -> int:
    """Move chains into the log, if they still are as `chains_ended` found them.

    Return the number of sessions. Their leases must be gone.
    """
    with atomic_step("archive"):
        claimed = array(claim_ended(roots, before))
        with connection.cursor() as cursor:
            wanted: dict[str, Any] = {
                "roots": claimed,
                "type": ARCHIVED,
                "now": database_now(),
                "facts": [*FACTS, "failure_title"],
                "decision_facts": list(DECISION_FACTS),
            }
            cursor.execute(_ARCHIVE, wanted)
            sessions = [row[0] for row in cursor.fetchall()]
            ids = [array(sessions)]
            cursor.execute(
                "DELETE FROM sessions_app_logchunk WHERE session_id = ANY(%s::uuid[])", ids
            )
            cursor.execute(
                "DELETE FROM sessions_app_dependency WHERE root_id = ANY(%s::uuid[])", [claimed]
            )
            # A trigger deletes their traces with them.
            cursor.execute(
                "DELETE FROM sessions_app_retrydecision WHERE session_id = ANY(%s::uuid[])", ids
            )
            cursor.execute(
                "DELETE FROM sessions_app_session WHERE id = ANY(%s::uuid[]) RETURNING spec_id", ids
            )
            specs = {row[0] for row in cursor.fetchall()}
            cursor.execute(
                "DELETE FROM sessions_app_sessionspec WHERE id = ANY(%s::uuid[])", [array(specs)]
            )
    return len(sessions)


def chains_forget(before: datetime, up_to: int) -> int:
    """Delete all events of chains that were archived before a time. Return the number of events.

    Only chains whose archiving event has an id of at most `up_to`: later ones are not counted yet.
    """
    with atomic_step("forget"), connection.cursor() as cursor:
        sessions = claim_archived(before, up_to, ATTEMPTS)
        cursor.execute(
            "DELETE FROM sessions_app_sessionevent WHERE session_id = ANY(%s::uuid[])",
            [array(sessions)],
        )
        return int(cursor.rowcount)
