"""The breakers and shared budgets of a project and of its queues, for simulations of its past."""

import json
from typing import Any

from django.db import connection

from retry.breakers import BreakerRule
from retry.policies.shared_budget import SharedBudget
from retry.together.chains import Rules

_RULES = """
    SELECT NULL::bigint AS queue_id, w.breaker::text, w.retry_budget::text
    FROM sessions_app_retrysettings w WHERE w.project_id = %(project)s
    UNION ALL
    SELECT q.id, q.breaker::text, q.retry_budget::text FROM sessions_app_queue q
    WHERE q.project_id = %(project)s AND (q.breaker IS NOT NULL OR q.retry_budget IS NOT NULL)
"""
_MUTED = """
    SELECT f.key FROM sessions_app_failuresignature f WHERE f.project_id = %s AND f.muted
"""


def shared_rules(project_id: int) -> Rules:
    """Return the rules that apply in a project now, in two statements."""
    with connection.cursor() as cursor:
        cursor.execute(_RULES, {"project": project_id})
        rows = cursor.fetchall()
        cursor.execute(_MUTED, [project_id])
        muted = frozenset(key for (key,) in cursor.fetchall())
    return Rules(
        project_id,
        breakers={
            queue: BreakerRule.model_validate(_read(text)) for queue, text, _ in rows if text
        },
        budgets={
            queue: SharedBudget.model_validate(_read(text)) for queue, _, text in rows if text
        },
        muted=muted,
    )


def _read(text: str) -> Any:
    return json.loads(text)
