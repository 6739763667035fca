"""Assigns keys to waiting sessions that have none, since they were handed back."""

from django.db import connection

from scheduler.locks import claim_without_key
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.db.bulk import array

AT_ONCE = 2_000
_KEY = scheduling_key_sql(
    resources="c.resources",
    pods="c.cluster_size",
    pod_spec="c.pod_spec",
    retry="s.retry_count > 0",
    avoid_node="s.avoid_node",
    avoid_node_of="CASE s.avoid_node WHEN '' THEN '' ELSE coalesce(f.executor, '') END",
    avoid_executors="s.avoid_executors",
    executor_labels="c.executor_labels",
)
_ASSIGN = f"""
    UPDATE sessions_app_session w SET scheduling_key = k.key
    FROM (
        SELECT s.id, {_KEY} AS key FROM sessions_app_session s
        JOIN sessions_app_sessionspec c ON c.id = s.spec_id
        LEFT JOIN sessions_app_session f ON f.id = s.parent_id
        WHERE s.id = ANY(%s::uuid[])
    ) k
    WHERE w.id = k.id
"""


def scheduling_keys_assign(limit: int = AT_ONCE) -> int:
    """Assign keys to at most `limit` sessions, in the caller's transaction. Return the number."""
    ids = claim_without_key(limit)
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(_ASSIGN, [array(ids)])
    return len(ids)
