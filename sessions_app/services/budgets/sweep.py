"""The sweep of shared budgets: it counts first attempts behind the log, and says which are spent.

It alone writes the verdicts. First attempts are at most one run late, so a budget allows too little
rather than too much. Without a budget it is one statement.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from retry.policies.shared_budget import LONGEST, SharedBudget
from sessions_app.core.cursors import START, Cursor
from sessions_app.db.bulk import array, columns
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.eventlog.places import (
    STRETCH,
    place_forget,
    place_move,
    place_of,
    position_here,
    stretch_after,
    stretch_range,
)
from sessions_app.in_force.shared_budgets import SCOPE_OF_SETTINGS, UNCOUNTED, counts_in
from sessions_app.locks import database_now, lock_budgets, lock_charges
from sessions_app.selectors.past_chains import first_id
from sessions_app.selectors.retry_budgets import standings_of
from sessions_app.services.budgets.charging import minutes_add

SLICE = 10_000
"""Maximum number of events that one transaction passes over."""
_LATE = timedelta(minutes=2)
"""After so long nothing more is charged in a minute, as a rule; what is, is merged later."""
TASK_SECONDS = 10.0
"""Seconds for which one run goes on; the next one continues."""

_LATEST = timedelta(seconds=30)
"""For so long first attempts may stand in the log before they are counted."""

_CHARGED = timedelta(minutes=5)
"""After so long whoever charges a retry has committed."""
_READER = 4
_CLOCKS = timedelta(days=1)
"""Maximum time by which the clocks that made the ids may have been behind the database's."""
_BUDGETS = f"""
    SELECT {SCOPE_OF_SETTINGS}, w.retry_budget::text FROM sessions_app_retrysettings w
    WHERE w.retry_budget IS NOT NULL
    UNION ALL
    SELECT 'queue:' || q.id, q.retry_budget::text FROM sessions_app_queue q
    WHERE q.retry_budget IS NOT NULL
    UNION ALL
    SELECT '', NULL FROM sessions_app_failurereader WHERE id = {_READER}
"""
_FIRST_ATTEMPTS = f"""
    SELECT s.queue_id, s.project_id, p.domain_id, extract(epoch FROM e.time)::bigint / 60, count(*)
    FROM {STRETCH} e
    JOIN sessions_app_session s ON s.id = e.session_id
    JOIN sessions_app_project p ON p.id = s.project_id
    WHERE e.type = 'session.submitted' AND e.attempt = 0
    GROUP BY 1, 2, 3, 4
"""
# The automatic retries that dispatch has charged: their children, found by their ids, which begin
# with a time.
_RETRIES = """
    SELECT s.queue_id, s.project_id, p.domain_id,
        floor(extract(epoch FROM s.created_at) / 60)::bigint, d.cause, count(*)
    FROM sessions_app_session s
    JOIN sessions_app_retrydecision d ON d.session_id = s.parent_id
    JOIN sessions_app_project p ON p.id = s.project_id
    WHERE s.id >= %(first)s AND s.created_at >= %(oldest)s
        AND s.created_at < coalesce(%(before)s::timestamptz, 'infinity')
        AND d.requested_by = '' AND d.dispatched_by = ''
        AND NOT d.paid_by = ANY(%(uncounted)s::text[])
    GROUP BY 1, 2, 3, 4, 5
"""
# In the order of the log, as the first after the place that can be read.
_UNREAD = """
    SELECT time FROM sessions_app_sessionevent WHERE epoch = %s AND xid >= %s::xid8
    ORDER BY xid, id LIMIT 1
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
# Commits that charged side by side have a row each, of one second of the minute
# (`migrations/sql/retries.sql`).
_MERGE = """
    WITH parts AS (
        DELETE FROM sessions_app_retrybudgetminute
        WHERE minute < %s AND extract(second FROM minute) > 0
        RETURNING scope, date_trunc('minute', minute) AS minute, first_attempts, retries)
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT scope, minute, sum(first_attempts), sum(retries) FROM parts
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries,
        first_attempts = m.first_attempts + excluded.first_attempts
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


def budgets_sweep(seconds: float = TASK_SECONDS) -> int:
    """Count the first attempts that are new in the log, and judge each budget anew, for at most
    `seconds`.

    Return the number of budgets that are spent; 0 while the log is only half read, since verdicts
    wait until it is.
    """
    if not any(budgets_found()):
        return 0
    until = time.monotonic() + seconds
    spent, more = _sweep_stretch()
    while more and time.monotonic() < until:
        spent, more = _sweep_stretch()
    return spent


def budgets_rebuild() -> int:
    """Count the retries and the first attempts of all budgets anew, and judge them.

    Return the number of budgets that are spent. The retries are there at once, first attempts after
    the whole log is read: meanwhile a budget allows too little, but ends no chain. How often one
    was spent stays.
    """
    with atomic_step("failures") as writes:
        lock_budgets()
        now = database_now()
        over = _retries(_oldest(now), now - _CHARGED)
        # Nobody charges a retry meanwhile, so all that were charged are seen. It is not for long:
        # whoever dispatches waits in its commit.
        lock_charges()
        new = _retries(now - _CHARGED, None)
        budgets = budgets_found().budgets
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sessions_app_retrybudgetminute")
        if budgets:
            minutes_add(writes, _counts_of([*over, *new], budgets))
            place_move(_READER, START)
    spent, more = _sweep_stretch()
    while more:
        spent, more = _sweep_stretch()
    return spent


def _sweep_stretch() -> tuple[int, bool]:
    """Count one stretch of the log, and judge after the last one. Return the number of spent
    budgets, and whether more follows."""
    with atomic_step("failures") as writes:
        lock_budgets()
        budgets = budgets_found().budgets
        if budgets and _count(writes, budgets):
            return 0, True
        lock_charges()
        # Dispatch may have charged one that is newer than what was read before the lock.
        budgets = budgets_found().budgets
        now = database_now()
        spent = _judge(budgets, now) if budgets and not _is_late(now) else 0
        _forget(budgets, now)
        return spent, False


def _count(writes: Writes, budgets: Mapping[str, SharedBudget]) -> bool:
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
        lock_charges()
        minutes_add(writes, counts)
    if read.place != place:
        place_move(_READER, read.place)
    return read.more


def _first_attempts(
    place: Cursor, reached: Cursor, budgets: Mapping[str, SharedBudget]
) -> dict[tuple[str, int], tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_ATTEMPTS, stretch_range(place, reached))
        rows = cursor.fetchall()
    counts: Counter[tuple[str, int]] = Counter()
    for *places, minute, count in rows:
        for scope in _scopes(budgets, *places):
            counts[scope, minute] += count
    return {at: (count, 0) for at, count in counts.items()}


def _retries(oldest: datetime, before: datetime | None) -> list[tuple[Any, ...]]:
    """Return the automatic retries since a moment, and before another one: the ids of queue,
    project and domain, the minute, the cause, and their number."""
    wanted: dict[str, Any] = {
        "first": first_id(oldest - _CLOCKS),
        "oldest": oldest,
        "before": before,
        "uncounted": array(sorted(UNCOUNTED)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_RETRIES, wanted)
        return list(cursor.fetchall())


def _counts_of(
    retries: Iterable[tuple[Any, ...]], budgets: Mapping[str, SharedBudget]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return retries by scope and minute, as `minutes_add` wants them."""
    counts: Counter[tuple[str, int]] = Counter()
    for *places, minute, cause, count in retries:
        for scope in _scopes(budgets, *places):
            if counts_in(budgets[scope], cause):
                counts[scope, minute] += count
    return {at: (0, count) for at, count in counts.items()}


def _scopes(
    budgets: Mapping[str, SharedBudget], queue: int, project: int, domain: int
) -> Iterable[str]:
    """Return the scopes of a queue that have a budget."""
    scopes = (f"queue:{queue}", f"project:{project}", f"domain:{domain}", "cluster")
    return [scope for scope in scopes if scope in budgets]


def _is_late(now: datetime) -> bool:
    """Return whether first attempts stand in the log that cannot be counted yet, for too long.

    A transaction that stays open holds up the reader, but not the retries, which dispatch charges:
    a verdict would end chains of a budget that is not spent.
    """
    here = position_here()
    with connection.cursor() as cursor:
        cursor.execute(_UNREAD, [here.epoch, str(here.xid)])
        row = cursor.fetchone()
    return row is not None and row[0] < now - _LATEST


def _judge(budgets: Mapping[str, SharedBudget], now: datetime) -> int:
    """Write which budgets are spent. Return their number."""
    found = standings_of({scope: each.limit for scope, each in budgets.items()}, now=now)
    judged = [(scope, not each.room) for scope, each in sorted(found.items())]
    scopes, verdicts = columns(judged)
    with connection.cursor() as cursor:
        cursor.execute(_JUDGE, {"now": now, "scopes": scopes, "spent": verdicts})
    return sum(spent for _, spent in judged)


def _forget(budgets: Collection[str], now: datetime) -> None:
    """Drop what belongs to no budget any more, and merge the minutes that are over."""
    scopes = array(sorted(budgets))
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_MINUTES, [_oldest(now), scopes])
        cursor.execute(_MERGE, [now - _LATE])
        cursor.execute(_FORGET_STATES, [scopes])
    if not budgets:
        place_forget(_READER)


def _oldest(now: datetime) -> datetime:
    return now - timedelta(seconds=LONGEST) - timedelta(minutes=1)
