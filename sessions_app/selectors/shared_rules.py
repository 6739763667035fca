"""The breakers and shared budgets of the cluster, of domains, projects and queues, for simulations
of the past."""

from django.db import connection

from retry.breakers import BreakerRule
from retry.policies.shared_budget import SharedBudget
from retry.together.chains import Rules
from sessions_app.in_force.shared_budgets import SCOPE_OF_SETTINGS
from sessions_app.models import Project
from sessions_app.selectors.past_chains import IN_AREA, Area

# Whether the cluster has rules, and whether the domain has some.
_WIDER = """
    SELECT coalesce(bool_or(domain_id IS NULL), false),
        coalesce(bool_or(domain_id IS NOT NULL), false)
    FROM sessions_app_retrysettings
    WHERE project_id IS NULL AND (domain_id IS NULL OR domain_id = %s)
        AND (breaker IS NOT NULL OR retry_budget IS NOT NULL)
"""
_RULES = f"""
    SELECT {SCOPE_OF_SETTINGS}, w.breaker::text, w.retry_budget::text
    FROM sessions_app_retrysettings w LEFT JOIN sessions_app_project o ON o.id = w.project_id
    WHERE ({IN_AREA}) OR w.domain_id = %(domain)s
    UNION ALL
    SELECT 'queue:' || q.id, q.breaker::text, q.retry_budget::text
    FROM sessions_app_queue q JOIN sessions_app_project o ON o.id = q.project_id
    WHERE (q.breaker IS NOT NULL OR q.retry_budget IS NOT NULL) AND {IN_AREA}
"""
_MUTED = f"""
    SELECT f.project_id, f.key FROM sessions_app_failuresignature f
    JOIN sessions_app_project o ON o.id = f.project_id WHERE f.muted AND {IN_AREA}
"""


def wider_areas(project: Project) -> dict[str, Area]:
    """Return the areas around a project that have rules, the widest first, by `cluster` and
    `domain`. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_WIDER, [project.domain_id])
        ((cluster, domain),) = cursor.fetchall()
    found = {"cluster": Area()} if cluster else {}
    return found | ({"domain": Area(domain_id=project.domain_id)} if domain else {})


def shared_rules(project_id: int, area: Area) -> Rules:
    """Return the rules of an area, and of all that is in it, for a simulation that shows one of its
    projects. Two statements."""
    with connection.cursor() as cursor:
        cursor.execute(_RULES, area.parameters)
        rows = cursor.fetchall()
        cursor.execute(_MUTED, area.parameters)
        muted = frozenset(cursor.fetchall())
    return Rules(
        project_id,
        breakers={key: BreakerRule.model_validate_json(text) for key, text, _ in rows if text},
        budgets={key: SharedBudget.model_validate_json(text) for key, _, text in rows if text},
        muted=muted,
    )
