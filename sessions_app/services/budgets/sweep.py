"""The sweep of shared budgets: it counts first attempts behind the log, and says which are spent.

It alone writes the verdicts. First attempts are at most one run late, so a budget allows too little
rather than too much. Without a budget it is one statement.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from retry.policies.shared_budget import LONGEST, SharedBudget
from sessions_app.core.cursors import Cursor
from sessions_app.db.bulk import columns
from sessions_app.db.steps import atomic_step
from sessions_app.eventlog.places import (
    place_forget,
    place_move,
    place_of,
    position_here,
    stretch_after,
    stretch_range,
)
from sessions_app.in_force.shared_budgets import SCOPE_OF_SETTINGS
from sessions_app.locks import database_now, lock_budgets, lock_slots
from sessions_app.selectors.retry_budgets import standings_of
from sessions_app.services.budgets.charging import minutes_add

SLICE = 10_000
"""Maximum number of events that one transaction passes over."""
SLICES = 20
"""Of one run; the next one continues."""

_READER = 4
_BUDGETS = f"""
    SELECT {SCOPE_OF_SETTINGS}, w.retry_budget::text FROM sessions_app_retrysettings w
    WHERE w.retry_budget IS NOT NULL
    UNION ALL
    SELECT 'queue:' || q.id, q.retry_budget::text FROM sessions_app_queue q
    WHERE q.retry_budget IS NOT NULL
    UNION ALL
    SELECT '', NULL FROM sessions_app_failurereader WHERE id = {_READER}
"""
_FIRST_ATTEMPTS = """
    SELECT s.queue_id, s.project_id, p.domain_id, extract(epoch FROM e.time)::bigint / 60, count(*)
    FROM sessions_app_sessionevent e
    JOIN sessions_app_session s ON s.id = e.session_id
    JOIN sessions_app_project p ON p.id = s.project_id
    WHERE e.epoch = %(epoch)s AND e.xid >= %(xid)s::xid8 AND (e.xid, e.id) > (%(xid)s::xid8, %(id)s)
        AND (e.xid, e.id) <= (%(to_xid)s::xid8, %(to_id)s)
        AND e.type = 'session.submitted' AND e.attempt = 0
    GROUP BY 1, 2, 3, 4
"""
_JUDGE = """
    INSERT INTO sessions_app_retrybudgetstate AS t (scope, spent_since, judged_at, spent_times)
    SELECT v.scope, CASE WHEN v.spent THEN %(now)s END, %(now)s, v.spent::int
    FROM unnest(%(scopes)s::text[], %(spent)s::boolean[]) AS v(scope, spent)
    ON CONFLICT (scope) DO UPDATE SET judged_at = excluded.judged_at,
        spent_since = CASE WHEN excluded.spent_since IS NOT NULL
            THEN coalesce(t.spent_since, excluded.spent_since) END,
        spent_times = t.spent_times
            + (t.spent_since IS NULL AND excluded.spent_since IS NOT NULL)::int
"""
_FORGET_MINUTES = """
    DELETE FROM sessions_app_retrybudgetminute WHERE minute < %s OR NOT scope = ANY(%s::text[])
"""
_FORGET_STATES = "DELETE FROM sessions_app_retrybudgetstate WHERE NOT scope = ANY(%s::text[])"


class BudgetsFound(NamedTuple):
    """The budgets of all scopes, by their keys, and whether the sweep has counted for any."""

    budgets: dict[str, SharedBudget]
    counted: bool


def budgets_found() -> BudgetsFound:
    """Return the shared budgets of all scopes."""
    with connection.cursor() as cursor:
        cursor.execute(_BUDGETS)
        rows = cursor.fetchall()
    found = {
        scope: SharedBudget.model_validate_json(text) for scope, text in rows if text is not None
    }
    return BudgetsFound(found, any(text is None for _, text in rows))


def budgets_sweep() -> int:
    """Count the first attempts that are new in the log, and judge each budget anew.

    Return the number of budgets that are spent.
    """
    if not any(budgets_found()):
        return 0
    for _ in range(SLICES):
        with atomic_step("failures"):
            lock_budgets()
            found = budgets_found()
            more = _count(found.budgets) if found.budgets else False
            spent = _judge(found.budgets)
        if not more:
            break
    return spent


def _count(budgets: Mapping[str, SharedBudget]) -> bool:
    """Count the first attempts of the next stretch. Return whether more of the log follows."""
    here = position_here()
    place = place_of(_READER)
    if place is None:
        # What was submitted before the first budget does not count.
        place_move(_READER, here)
        return False
    read = stretch_after(place, here, SLICE)
    if read.reached != place:
        counts = _first_attempts(place, read.reached, budgets)
        lock_slots()
        minutes_add(counts)
    if read.place != place:
        place_move(_READER, read.place)
    return read.more


def _first_attempts(
    place: Cursor, reached: Cursor, budgets: Mapping[str, Any]
) -> dict[tuple[str, int], tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_ATTEMPTS, stretch_range(place, reached))
        rows = cursor.fetchall()
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for queue, project, domain, minute, count in rows:
        for scope in (f"queue:{queue}", f"project:{project}", f"domain:{domain}", "cluster"):
            if scope in budgets:
                counted, _ = counts.get((scope, minute), (0, 0))
                counts[scope, minute] = counted + count, 0
    return counts


def _judge(budgets: Mapping[str, SharedBudget]) -> int:
    """Write which budgets are spent, and drop what belongs to none any more."""
    lock_slots()
    now = database_now()
    found = standings_of({scope: each.limit for scope, each in budgets.items()}, now=now)
    judged = [(scope, not each.room) for scope, each in sorted(found.items())]
    scopes, verdicts = columns(judged) or ("{}", "{}")
    with connection.cursor() as cursor:
        if found:
            cursor.execute(_JUDGE, {"now": now, "scopes": scopes, "spent": verdicts})
        cursor.execute(_FORGET_MINUTES, [_oldest(now), scopes])
        cursor.execute(_FORGET_STATES, [scopes])
    if not found:
        place_forget(_READER)
    return sum(spent for _, spent in judged)


def _oldest(now: datetime) -> datetime:
    return now - timedelta(seconds=LONGEST) - timedelta(minutes=1)
