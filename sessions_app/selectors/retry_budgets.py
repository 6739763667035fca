"""The shared retry budgets that somebody may see, with what was made of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from retry.policies.shared_budget import SharedBudget
from retry.shared_budgets import Limit, Standing, edges
from sessions_app.authorization import Actor
from sessions_app.db.bulk import array, columns
from sessions_app.in_force.shared_budgets import SCOPE_OF_SETTINGS
from sessions_app.selectors.sessions import projects_visible

MOST_HELD = 10_000
"""Retries that wait are counted up to here."""

_STANDINGS = """
    SELECT v.scope,
        coalesce(sum(m.first_attempts)
            FILTER (WHERE m.minute >= to_timestamp(v.attempts_from * 60)), 0)::bigint,
        coalesce(sum(m.retries), 0)::bigint,
        (SELECT min(d.held_order) FROM sessions_app_retrydecision d
            WHERE d.state = 'held' AND d.held_for = 'shared_budget' AND d.held_key = v.scope)
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS v(scope, retries_from, attempts_from)
    LEFT JOIN sessions_app_retrybudgetminute m
        ON m.scope = v.scope AND m.minute >= to_timestamp(v.retries_from * 60)
    GROUP BY v.scope
"""
# The cluster's comes first, then those of domains, projects and queues, each by name.
_FOUND = f"""
    SELECT {SCOPE_OF_SETTINGS} AS key,
        CASE WHEN w.project_id IS NOT NULL THEN 2 WHEN w.domain_id IS NOT NULL THEN 1 ELSE 0 END
            AS level,
        CASE WHEN w.project_id IS NOT NULL THEN d.name || '/' || p.name
            ELSE coalesce(d.name, 'cluster') END AS name, w.retry_budget::text AS budget,
        w.id AS row, w.domain_id, w.project_id
    FROM sessions_app_retrysettings w
    LEFT JOIN sessions_app_project p ON p.id = w.project_id
    LEFT JOIN sessions_app_domain d ON d.id = coalesce(w.domain_id, p.domain_id)
    WHERE w.retry_budget IS NOT NULL
    UNION ALL
    SELECT 'queue:' || q.id, 3, d.name || '/' || p.name || '/' || q.name, q.retry_budget::text,
        q.id, NULL, q.project_id
    FROM sessions_app_queue q JOIN sessions_app_project p ON p.id = q.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    WHERE q.retry_budget IS NOT NULL
"""
_HELD = f"""
    SELECT count(*) FROM (SELECT FROM sessions_app_retrydecision h
        WHERE h.state = 'held' AND h.held_for = 'shared_budget' AND h.held_key = f.key
        LIMIT {MOST_HELD}) AS waiting
"""
_HOLDS = f"SELECT ({_HELD}) FROM (SELECT %s::text AS key) AS f"
_SHOWN = f"""
    SELECT f.key, f.name, f.budget, t.spent_since, coalesce(t.spent_times, 0), ({_HELD})
    FROM ({_FOUND}) AS f LEFT JOIN sessions_app_retrybudgetstate t ON t.scope = f.key
"""
_ONE = f"{_SHOWN} WHERE f.key = %s"
_PAGE = f"""
    {_SHOWN}
    WHERE f.project_id = ANY(%(projects)s::bigint[]) OR f.domain_id = ANY(%(domains)s::bigint[])
        OR %(all)s AND f.project_id IS NULL
    ORDER BY f.level, f.name LIMIT %(limit)s OFFSET %(offset)s
"""
_SPENT = f"""
    SELECT f.key, f.row, f.name, f.budget, t.spent_since, ({_HELD})
    FROM ({_FOUND}) AS f JOIN sessions_app_retrybudgetstate t ON t.scope = f.key
    WHERE t.spent_since IS NOT NULL
    ORDER BY t.spent_since, f.key LIMIT %s
"""


def standings_of(limits: Mapping[str, Limit], *, now: datetime) -> dict[str, Standing]:
    """Return what scopes have made within their windows, by their keys, in one statement."""
    if not limits:
        return {}
    rows = [(scope, *edges(each.window, now.timestamp())) for scope, each in limits.items()]
    with connection.cursor() as cursor:
        cursor.execute(_STANDINGS, columns(rows))
        found = cursor.fetchall()
    return {scope: Standing(limits[scope], *counts) for scope, *counts in found}


class BudgetShown(NamedTuple):
    """A shared budget of a scope, and how it stands."""

    key: str
    name: str
    budget: SharedBudget
    spent_since: datetime | None
    spent_times: int
    held: int
    standing: Standing


def budgets_listed(
    actor: Actor, address: str | None, *, now: datetime, offset: int, limit: int
) -> list[BudgetShown]:
    """Return the budgets of all scopes in which the actor has a role, or only those of the project
    at an address and of its queues. It takes a fixed number of statements.

    Those of the cluster and of a domain tell what all their projects do: a role in one of these is
    not enough.
    """
    whole = address is None and actor.only_project_id is None
    asked: dict[str, Any] = {
        "projects": array(projects_visible(actor, address)),
        "domains": array(actor.places_with_role()[1] if whole else []),
        "all": whole and actor.is_cluster_admin,
        "offset": offset,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAGE, asked)
        return _shown(cursor.fetchall(), now)


def budget_shown(key: str, *, now: datetime) -> BudgetShown | None:
    """Return the budget of the scope with this key, in two statements; None, in one, if it has
    none."""
    with connection.cursor() as cursor:
        cursor.execute(_ONE, [key])
        found = _shown(cursor.fetchall(), now)
    return found[0] if found else None


def _shown(rows: Sequence[Sequence[Any]], now: datetime) -> list[BudgetShown]:
    budgets = {key: SharedBudget.model_validate_json(text) for key, _, text, *_ in rows}
    standings = standings_of({key: each.limit for key, each in budgets.items()}, now=now)
    return [
        BudgetShown(key, name, budgets[key], since, times, held, standings[key])
        for key, name, _, since, times, held in rows
    ]


def budget_holds(key: str) -> int:
    """Return the number of retries that the budget of a scope holds, counted up to `MOST_HELD`."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDS, [key])
        ((held,),) = cursor.fetchall()
    return int(held)


class BudgetSpent(NamedTuple):
    """A shared budget that is spent: its scope, and what it holds up."""

    key: str
    row: int
    """The id of the retry settings, or of the queue, that have it."""
    name: str
    budget: SharedBudget
    spent_since: datetime
    held: int


def budgets_spent(limit: int) -> list[BudgetSpent]:
    """Return at most `limit` spent budgets of all scopes, those spent for longest first, in one
    statement."""
    with connection.cursor() as cursor:
        cursor.execute(_SPENT, [limit])
        rows = cursor.fetchall()
    return [
        BudgetSpent(key, row, name, SharedBudget.model_validate_json(budget), since, held)
        for key, row, name, budget, since, held in rows
    ]
