"""The one sweep of breakers, behind the log: counts failing chains, then opens, probes and closes.

A stretch of the log, what it opens and the new position are one transaction under the lock of the
breakers. Nothing is counted while nobody asks for a breaker.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from retry.breakers import BreakerRule, opens, scope_key
from retry.evidence.causes import FAILURE_CAUSES
from sessions_app.core.cursors import START, Cursor
from sessions_app.db.bulk import array
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
from sessions_app.locks import database_now, lock_breakers
from sessions_app.models import Breaker
from sessions_app.models.breakers import BreakerState
from sessions_app.services.breakers.probes import probes_watch
from sessions_app.services.breakers.turns import breakers_turn, opened

SLICE = 2_000
"""Maximum number of events that one transaction passes over."""
TASK_SECONDS = 10.0
"""Seconds for which one run goes on; the next one continues."""
MOST_OPEN = 100
"""Maximum number of open breakers of a scope; every decision in it reads them all."""
MOST_FORGOTTEN = 10_000
_READER = 3
"""The id of the position: 1 and 2 are those of the figures of failures."""

# One statement, since a server on which nobody asks for this does only that.
_WORK = f"""
    SELECT EXISTS (SELECT FROM sessions_app_retrysettings WHERE breaker IS NOT NULL)
            OR EXISTS (SELECT FROM sessions_app_queue WHERE breaker IS NOT NULL),
        EXISTS (SELECT FROM sessions_app_breaker WHERE state = 'open'),
        EXISTS (SELECT FROM sessions_app_failurereader WHERE id = {_READER})
"""
_RULES = """
    SELECT NULL::bigint AS project_id, NULL::bigint AS queue_id, breaker
    FROM sessions_app_retrysettings
    WHERE domain_id IS NULL AND project_id IS NULL AND breaker IS NOT NULL
    UNION ALL
    SELECT project_id, NULL, breaker FROM sessions_app_retrysettings
    WHERE project_id IS NOT NULL AND breaker IS NOT NULL
    UNION ALL
    SELECT project_id, id, breaker FROM sessions_app_queue WHERE breaker IS NOT NULL
"""
_ADD = f"""
    WITH rules AS MATERIALIZED ({_RULES})
    INSERT INTO sessions_app_breakerfailure AS b
        (signature, root_id, project_id, queue_id, failed_at)
    SELECT DISTINCT ON (e.data->>'failure_signature', e.root_id)
        e.data->>'failure_signature', e.root_id, e.project_id, s.queue_id, e.time
    FROM {STRETCH} e JOIN sessions_app_session s ON s.id = e.session_id
    WHERE e.type = 'session.error' AND e.data->>'failure_signature' <> ''
        AND e.data->>'retry_cause' = ANY(%(causes)s::text[])
        AND NOT e.data ? 'failure_generic'
        AND EXISTS (SELECT FROM rules r WHERE (r.project_id IS NULL OR r.project_id = e.project_id)
            AND (r.queue_id IS NULL OR r.queue_id = s.queue_id))
        AND NOT EXISTS (SELECT FROM sessions_app_failuresignature f WHERE f.muted
            AND f.project_id = e.project_id AND f.key = e.data->>'failure_signature')
    ORDER BY 1, 2, e.time DESC
    ON CONFLICT (signature, root_id) DO UPDATE
    SET failed_at = greatest(b.failed_at, excluded.failed_at)
    RETURNING b.signature
"""
# What failed before a breaker closed does not open it again.
_CANDIDATES = f"""
    SELECT r.project_id, r.queue_id, r.breaker::text, f.signature, f.project_id, count(*)
    FROM ({_RULES}) AS r
    JOIN sessions_app_breakerfailure f ON f.signature = ANY(%(signatures)s::text[])
        AND (r.project_id IS NULL OR f.project_id = r.project_id)
        AND (r.queue_id IS NULL OR f.queue_id = r.queue_id)
        AND f.failed_at > %(now)s - make_interval(secs => (r.breaker->>'window')::float8)
    LEFT JOIN sessions_app_breaker b ON b.signature = f.signature
        AND b.project_id IS NOT DISTINCT FROM r.project_id
        AND b.queue_id IS NOT DISTINCT FROM r.queue_id
    WHERE b.id IS NULL OR b.state = 'closed' AND NOT b.muted AND f.failed_at > b.closed_at
    GROUP BY r.project_id, r.queue_id, r.breaker::text, f.signature, f.project_id
"""
# The newest event of a breaker that contradicts its row.
_AS_LOGGED = """
    UPDATE sessions_app_breaker b SET state = e.state, reason = e.reason, probe = NULL,
        probe_since = NULL, event_seq = greatest(b.event_seq, e.seq),
        opened_at = CASE e.state WHEN 'open' THEN e.time ELSE b.opened_at END,
        opened_by = CASE e.state WHEN 'open' THEN e.by ELSE b.opened_by END,
        chains = CASE e.state WHEN 'open' THEN e.chains ELSE b.chains END,
        closed_at = CASE e.state WHEN 'closed' THEN e.time END,
        closed_by = CASE e.state WHEN 'closed' THEN e.by ELSE '' END,
        probe_at = CASE e.state WHEN 'open' THEN %(now)s END
    FROM (
        SELECT DISTINCT ON (session_id) session_id, seq, time, data->>'reason' AS reason,
            data->>'by' AS by, (data->>'chains')::int AS chains,
            CASE type WHEN 'breaker.opened' THEN 'open' ELSE 'closed' END AS state
        FROM sessions_app_sessionevent
        WHERE session_id IN (SELECT id FROM sessions_app_breaker)
        ORDER BY session_id, seq DESC) e
    WHERE e.session_id = b.id AND e.state <> b.state AND NOT b.muted
"""
_FORGET = """
    DELETE FROM sessions_app_breakerfailure WHERE id IN (
        SELECT id FROM sessions_app_breakerfailure
        WHERE failed_at < clock_timestamp() - interval '1 day' ORDER BY failed_at LIMIT %s)
"""


class _Candidate(NamedTuple):
    """A signature that fails in a scope with a rule."""

    project_id: int | None
    queue_id: int | None
    rule: BreakerRule
    signature: str
    chains: dict[int, int]
    """Number of chains by project."""

    @property
    def scope(self) -> str:
        return scope_key(self.project_id, self.queue_id)


def breakers_sweep(seconds: float = TASK_SECONDS) -> bool:
    """Keep the breakers. Return whether any is open, opened or closed."""
    with connection.cursor() as cursor:
        cursor.execute(_WORK)
        asked, any_open, counting = cursor.fetchone()
    if asked:
        until = time.monotonic() + seconds
        more = True
        while more and time.monotonic() < until:
            found, more = stretch_count()
            any_open = any_open or found > 0
    elif counting:
        _stop()
    if any_open:
        _watch(asked=asked)
    return bool(any_open)


def breakers_rebuild() -> int:
    """Make breakers as the log tells of them. Return the number of open ones.

    Failing chains are counted anew from the whole log, and what is due opens. An open breaker of
    the engine closes if nothing speaks for it. What people decided stays: what they opened is open,
    what they closed or muted stays so.
    """
    with atomic_step("breakers"):
        lock_breakers()
        with connection.cursor() as cursor:
            cursor.execute(_AS_LOGGED, {"now": database_now()})
            cursor.execute("DELETE FROM sessions_app_breakerfailure")
            cursor.execute(_WORK)
            asked = cursor.fetchone()[0]
        if asked:
            place_move(_READER, START)
    more = asked
    while more:
        _, more = stretch_count()
    _watch(asked=asked)
    return Breaker.objects.filter(state=BreakerState.OPEN).count()


def stretch_count(limit: int = SLICE) -> tuple[int, bool]:
    """Count the next stretch of the log. Return the number of breakers that it opened, and whether
    more of the log follows.

    The first stretch begins at the end of the log: only what fails from then on counts.
    """
    with atomic_step("breakers") as writes:
        lock_breakers()
        return _count(writes, limit)


def _count(writes: Writes, limit: int) -> tuple[int, bool]:
    here, before = position_here(), place_of(_READER)
    if before is None:
        place_move(_READER, here)
        return 0, False
    read = stretch_after(before, here, limit)
    found = 0
    if read.reached != before:
        signatures = _add(before, read.reached)
        if signatures:
            found = _open(writes, signatures, database_now())
    if read.place != before:
        place_move(_READER, read.place)
    return found, read.more


def _watch(*, asked: bool) -> None:
    """Look at the open breakers, with all that failed until now, if that is not too much.

    It is counted in the same transaction, since a rebuild may have begun anew before it.
    """
    with atomic_step("breakers") as writes:
        lock_breakers()
        behind = asked and _count(writes, SLICE)[1]
        probes_watch(writes, behind=behind)


def _stop() -> None:
    """Forget what was counted: nobody asks for it any more."""
    with atomic_step("breakers"):
        lock_breakers()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sessions_app_breakerfailure")
        place_forget(_READER)


def _add(before: Cursor, reached: Cursor) -> set[str]:
    """Count the chains that failed between two places. Return the signatures."""
    wanted = {**stretch_range(before, reached), "causes": array(sorted(FAILURE_CAUSES))}
    with connection.cursor() as cursor:
        cursor.execute(_ADD, wanted)
        found = {row[0] for row in cursor.fetchall()}
        cursor.execute(_FORGET, [MOST_FORGOTTEN])
    return found


def _open(writes: Writes, signatures: Collection[str], now: datetime) -> int:
    """Open the breakers of these signatures that are to be. Return their number."""
    due = [
        each for each in _candidates(signatures, now) if opens(each.rule, each.scope, each.chains)
    ]
    if not due:
        return 0
    scopes = {each.scope for each in due}
    rows = Breaker.objects.filter(scope__in=scopes, signature__in={each.signature for each in due})
    known = {(row.scope, row.signature): row for row in rows}
    open_now = Breaker.objects.filter(scope__in=scopes, state=BreakerState.OPEN)
    room = Counter(dict.fromkeys(scopes, MOST_OPEN))
    room.subtract(open_now.values_list("scope", flat=True))
    chosen = []
    for each in due:
        if room[each.scope] > 0:
            room[each.scope] -= 1
            chosen.append(_opened(each, known.get((each.scope, each.signature)), now))
    breakers_turn(writes, opened=chosen, now=now)
    return len(chosen)


def _opened(found: _Candidate, known: Breaker | None, now: datetime) -> Breaker:
    breaker = known or Breaker(
        scope=found.scope,
        project_id=found.project_id,
        queue_id=found.queue_id,
        signature=found.signature,
    )
    chains = sum(found.chains.values())
    breaker.projects = sorted(found.chains)
    reason = f"{chains} chains failed so within {found.rule.window} s"
    return opened(breaker, now, delay=found.rule.probe_after, reason=reason, chains=chains)


def _candidates(signatures: Collection[str], now: datetime) -> Sequence[_Candidate]:
    found: dict[tuple[Any, ...], _Candidate] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, {"signatures": array(sorted(signatures)), "now": now})
        for project_id, queue_id, rule, signature, of_project, chains in cursor.fetchall():
            key = (project_id, queue_id, signature)
            if key not in found:
                parsed = BreakerRule.model_validate_json(rule)
                found[key] = _Candidate(project_id, queue_id, parsed, signature, {})
            found[key].chains[of_project] = chains
    return sorted(found.values(), key=lambda each: (each.scope, each.signature))


def breakers_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` breakers that closed before a time. Return their number.

    A muted one stays: somebody wants that it does not open.
    """
    old = Breaker.objects.filter(state=BreakerState.CLOSED, muted=False, closed_at__lt=before)
    with atomic_step("failures"):
        lock_breakers()
        ids = list(old.order_by("closed_at").values_list("pk", flat=True)[:limit])
        deleted, _ = Breaker.objects.filter(pk__in=ids).delete()
    return deleted
