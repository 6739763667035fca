"""Locks on both ends of dependencies: on chains that are waited for, and on those that wait."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import FEW_IDS, array

# Whoever ends a chain waits for this lock, and then sees who depends on it.
_SHARE = """
    SELECT r.id FROM sessions_app_session r
    WHERE r.id = ANY(%s::uuid[]) AND r.parent_id IS NULL ORDER BY r.id FOR SHARE
"""
# The ids of all are read once for each slice, which costs far less than to release one. Sessions
# are looked up in their order until there are enough. Nobody waits here, so their order is free.
_CLAIM = f"""
    SELECT r.id FROM (
        SELECT DISTINCT d.root_id FROM sessions_app_dependency d
        WHERE d.on_root = ANY({FEW_IDS}) AND d.outcome = '' ORDER BY d.root_id) AS w
    JOIN sessions_app_session r ON r.id = w.root_id
    LIMIT %s FOR NO KEY UPDATE OF r SKIP LOCKED
"""
# PostgreSQL makes the rows of a recursion as they are asked for: the limit ends it.
_CLAIM_FURTHER = f"""
    WITH RECURSIVE down(root) AS (
        SELECT d.root_id FROM sessions_app_dependency d
        WHERE d.on_root = ANY({FEW_IDS}) AND d.outcome = '' AND d.wanted <> 'ended'
        UNION
        SELECT d.root_id FROM down w
        CROSS JOIN LATERAL (
            SELECT spec_id FROM sessions_app_session
            WHERE root_id = w.root AND tip AND phase = 'blocked' OFFSET 0) t
        CROSS JOIN LATERAL (
            SELECT FROM sessions_app_sessionspec
            WHERE id = t.spec_id AND on_dependency_failure = 'cancel' OFFSET 0) p
        CROSS JOIN LATERAL (
            SELECT root_id FROM sessions_app_dependency
            WHERE on_root = w.root AND outcome = '' AND wanted <> 'ended' OFFSET 0) d
    )
    SELECT r.id FROM down w JOIN sessions_app_session r ON r.id = w.root
    LIMIT %s FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def share_roots(root_ids: Sequence[UUID]) -> set[UUID]:
    """Keep chains from ending until this transaction does. Return the roots that exist.

    The caller holds no lock on any session, so that two callers cannot wait for each other.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SHARE, [array(root_ids)])
        return {row[0] for row in cursor.fetchall()}


def claim_dependants(on_roots: Sequence[UUID], limit: int) -> list[UUID]:
    """Lock the roots of at most `limit` chains that have not seen how one of these chains ended."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [array(on_roots), limit])
        return [row[0] for row in cursor.fetchall()]


def claim_further(on_roots: Sequence[UUID], limit: int) -> list[UUID]:
    """Lock the roots of at most `limit` chains that cannot begin once these end as cancelled.

    Also those further down: of each one that is cancelled with them, the next ones.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_FURTHER, [array(on_roots), limit])
        return [row[0] for row in cursor.fetchall()]
