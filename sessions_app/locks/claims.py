"""Claims: chains that are due for work are locked by the first caller and skipped by others."""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import array

_SWITCHED = "state = 'held' AND held_for = 'switch'"
# Looks at the projects whose retries a switch holds, not at the retries: those of a project that is
# switched off for a month cost nothing. Each step of the recursion is one probe of an index.
_CLAIM_RESUMABLE = f"""
    WITH RECURSIVE holding(project_id) AS (
        (SELECT project_id FROM sessions_app_retrydecision
            WHERE {_SWITCHED} AND project_id IS NOT NULL
            ORDER BY project_id LIMIT 1)
        UNION ALL
        SELECT (SELECT project_id FROM sessions_app_retrydecision
            WHERE {_SWITCHED} AND project_id > h.project_id
            ORDER BY project_id LIMIT 1)
        FROM holding h WHERE h.project_id IS NOT NULL
    )
    SELECT d.session_id FROM holding h JOIN sessions_app_project p ON p.id = h.project_id
    JOIN LATERAL (
        SELECT coalesce(bool_or(w.mode = 'off'), false) AS off,
            coalesce(bool_or(w.mode = 'paused'), false) AS paused
        FROM sessions_app_retrysettings w
        WHERE w.domain_id IS NULL AND w.project_id IS NULL
            OR w.domain_id = p.domain_id OR w.project_id = p.id
    ) m ON NOT m.off
    JOIN LATERAL (
        (SELECT session_id FROM sessions_app_retrydecision
            WHERE {_SWITCHED} AND project_id = p.id
                AND NOT m.paused
            ORDER BY session_id LIMIT %(limit)s)
        UNION ALL
        (SELECT session_id FROM sessions_app_retrydecision
            WHERE {_SWITCHED} AND project_id = p.id
                AND requested_by <> '' AND m.paused
            ORDER BY session_id LIMIT %(limit)s)
    ) d ON true
    JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def claim_resumable(limit: int) -> list[UUID]:
    """Lock the roots of at most `limit` retries that a switch holds though none need hold them.

    Where retries are paused, those are retries by hand. Return the ids of their sessions. What
    anything else holds is left to its own release.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_RESUMABLE, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


_CLAIM_PARKED = """
    SELECT d.session_id FROM sessions_app_retrydecision d
    JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE d.state = 'held' AND d.held_for = 'parked' AND d.due_at <= statement_timestamp()
    ORDER BY d.due_at, d.session_id LIMIT %s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def claim_parked(limit: int) -> list[UUID]:
    """Lock the roots of at most `limit` parked chains whose time is over. Return the ids of their
    newest attempts, those that have waited longest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_PARKED, [limit])
        return [row[0] for row in cursor.fetchall()]


# By key: what an open breaker holds costs nothing, however much it is. Each step of the recursion
# is one probe of an index.
_CLAIM_BREAKER_HELD = """
    WITH RECURSIVE holding(held_key) AS (
        (SELECT held_key FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'breaker' ORDER BY held_key LIMIT 1)
        UNION ALL
        SELECT (SELECT held_key FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'breaker' AND held_key > h.held_key
            ORDER BY held_key LIMIT 1)
        FROM holding h WHERE h.held_key IS NOT NULL
    ),
    waiting AS (
        SELECT d.session_id FROM holding h
        LEFT JOIN sessions_app_breaker b ON b.state = 'open'
            AND b.scope || '/' || b.signature = h.held_key
        JOIN LATERAL (
            SELECT session_id FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'breaker' AND held_key = h.held_key
                AND b.id IS NULL
            ORDER BY due_at, session_id LIMIT %(limit)s) d ON true
        UNION
        SELECT d.session_id FROM sessions_app_breaker b
        JOIN sessions_app_failuresignature f ON f.key = b.signature AND f.muted
        CROSS JOIN LATERAL (
            SELECT session_id FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'breaker'
                AND held_key = b.scope || '/' || b.signature AND project_id = f.project_id
            ORDER BY due_at, session_id LIMIT %(limit)s) d
        WHERE b.state = 'open' AND b.project_id IS NULL
        UNION
        SELECT d.session_id FROM sessions_app_breaker b
        JOIN sessions_app_retrydecision d ON d.session_id = b.probe
        WHERE b.state = 'open' AND d.state = 'held' AND d.held_for = 'breaker'
            AND d.held_key = b.scope || '/' || b.signature
    )
    SELECT s.id FROM waiting w JOIN sessions_app_session s ON s.id = w.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def claim_breaker_held(limit: int) -> list[UUID]:
    """Lock the roots of at most `limit` retries that a breaker holds though it has closed, though
    their project has muted its signature, or though they are its probe. Return the ids of their
    sessions."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_BREAKER_HELD, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


_CLAIM_OVER_BUDGET = """
    SELECT d.session_id, s.root_id FROM sessions_app_retrydecision d
    JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE d.state = 'held' AND d.held_for = 'shared_budget' AND d.held_key = %s
    ORDER BY d.held_order, d.session_id LIMIT %s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def claim_over_budget(scope: str, limit: int) -> list[tuple[UUID, UUID]]:
    """Lock the roots of at most `limit` retries that wait for the shared budget of a scope.

    Return their sessions and roots, the oldest chain first.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_OVER_BUDGET, [scope, limit])
        return [(session_id, root_id) for session_id, root_id in cursor.fetchall()]


_CLAIM_ROOTS = """
    SELECT r.id FROM sessions_app_session r
    WHERE r.id = ANY(%s::uuid[]) AND r.parent_id IS NULL ORDER BY r.id FOR UPDATE SKIP LOCKED
"""
# Sees what earlier holders of the root locks have committed.
_STILL_ENDED = """
    SELECT root_id FROM sessions_app_session
    WHERE root_id = ANY(%s::uuid[]) AND finished_at < %s
        AND resting IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')
"""


def claim_ended(roots: Sequence[UUID], before: datetime) -> list[UUID]:
    """Lock the roots of chains to archive. Return those that ended before a time and still have."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_ROOTS, [array(roots)])
        cursor.execute(_STILL_ENDED, [array(row[0] for row in cursor.fetchall()), before])
        return [row[0] for row in cursor.fetchall()]


_CLAIM_ARCHIVED = """
    SELECT data->'archive'->>'chain' FROM sessions_app_sessionevent
    WHERE type = 'session.archived' AND attempt = 0 AND time < %s AND id <= %s
    ORDER BY time LIMIT %s FOR UPDATE SKIP LOCKED
"""


def claim_archived(before: datetime, up_to: int, limit: int) -> list[UUID]:
    """Lock the first chains archived before a time, by an event with at most the id `up_to`.

    Return their sessions: at most `limit`, unless the first chain alone has more.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_ARCHIVED, [before, up_to, limit])
        sessions: list[UUID] = []
        for (chain,) in cursor.fetchall():
            ids = [UUID(each) for each in json.loads(chain)]
            if sessions and len(sessions) + len(ids) > limit:
                break
            sessions += ids
        return sessions


# What follows is part of a statement that writes the rows at once, and locks nothing else.
CLAIM_USE = """
    SELECT id FROM sessions_app_apitoken
    WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at < %(now)s)
    FOR NO KEY UPDATE SKIP LOCKED
"""
"""A token whose use is to be written: of many calls at once one writes, and none waits for it."""
CLAIM_DISPATCHES = """
    SELECT id FROM sessions_app_automaticdispatch WHERE time < %s
    ORDER BY time, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
"""The oldest automatic dispatches of before a time."""
CLAIM_LOGS = """
    SELECT l.id FROM sessions_app_session s
    JOIN sessions_app_logchunk l ON l.session_id = s.id
    WHERE s.root_id = ANY(%s::uuid[]) LIMIT %s FOR UPDATE OF l SKIP LOCKED
"""
"""Pieces of the logs of chains that have ended."""
