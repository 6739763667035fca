"""Probes: one retry that a breaker lets through, and what its end does to the breaker."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from retry.breakers import PROBE_SECONDS, ProbeEnd, next_delay, probe_end
from retry.evidence.causes import PLATFORM_CAUSES
from sessions_app.core.states import FINAL_STATUSES
from sessions_app.db.writes import Writes
from sessions_app.locks import database_now
from sessions_app.models import Breaker
from sessions_app.models.breakers import BreakerState
from sessions_app.services.breakers.turns import breakers_turn, closed

_PROBED = ("probe", "probe_since", "probe_at", "probe_delay", "probes")
# Of each open breaker: whether its scope still has a rule, whether its signature is muted, how far
# its probe is, and which retry would be the next one. What a switch holds, too, is no probe: the
# breaker would spend a sweep on each of them. In a project that is paused, none is even read.
_WATCHED = """
    WITH switched AS MATERIALIZED (
        SELECT p.id FROM sessions_app_project p JOIN sessions_app_retrysettings w
            ON w.domain_id IS NULL AND w.project_id IS NULL
            OR w.domain_id = p.domain_id OR w.project_id = p.id
        WHERE w.mode <> 'on'
    )
    SELECT b.id,
        CASE WHEN b.queue_id IS NOT NULL
            THEN (SELECT q.breaker FROM sessions_app_queue q WHERE q.id = b.queue_id)
            ELSE (SELECT w.breaker FROM sessions_app_retrysettings w
                WHERE w.domain_id IS NULL AND w.project_id IS NOT DISTINCT FROM b.project_id)
            END ->> 'window',
        EXISTS (SELECT FROM sessions_app_failuresignature f
            WHERE f.project_id = b.project_id AND f.key = b.signature AND f.muted),
        d.state, d.held_for, c.status, c.failure_signature, c.retry_cause, n.session_id,
        EXISTS (SELECT FROM sessions_app_retrydecision h WHERE h.state = 'held'
            AND h.held_for = 'breaker' AND h.held_key = b.scope || '/' || b.signature),
        (SELECT max(f.failed_at) FROM sessions_app_breakerfailure f
            WHERE f.signature = b.signature
                AND (b.project_id IS NULL OR f.project_id = b.project_id)
                AND (b.queue_id IS NULL OR f.queue_id = b.queue_id))
    FROM sessions_app_breaker b
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = b.probe
    LEFT JOIN sessions_app_session c ON c.id = d.next_session_id
    LEFT JOIN LATERAL (SELECT h.session_id FROM sessions_app_retrydecision h
        WHERE h.state = 'held' AND h.held_for = 'breaker'
            AND h.held_key = b.scope || '/' || b.signature AND h.due_at <= %(now)s
            AND h.session_id IS DISTINCT FROM b.probe
            AND (b.project_id IN (SELECT id FROM switched)) IS NOT TRUE
            AND (h.project_id IN (SELECT id FROM switched)) IS NOT TRUE
        ORDER BY h.due_at, h.session_id LIMIT 1) n ON true
    WHERE b.state = 'open'
"""


class _Watched(NamedTuple):
    """What is known about an open breaker."""

    window: str | None
    """Of the rule of its scope, in seconds; None without a rule."""
    muted: bool
    decision: str | None
    held_for: str | None
    status: str | None
    signature: str | None
    cause: str | None
    following: UUID | None
    holds: bool
    failed_at: datetime | None


def probes_watch(writes: Writes, *, behind: bool) -> None:
    """Judge the probes of all open breakers, name new ones, and close what is over.

    The caller holds the lock of the breakers. While the count of failures is `behind` the log, none
    closes because its chains do not fail so any more.
    """
    now = database_now()
    with connection.cursor() as cursor:
        cursor.execute(_WATCHED, {"now": now})
        seen = {row[0]: _Watched._make(row[1:]) for row in cursor.fetchall()}
    rows = list(Breaker.objects.filter(pk__in=list(seen), state=BreakerState.OPEN))
    before = {row.pk: [getattr(row, name) for name in _PROBED] for row in rows}
    over = [row for row in rows if _step(row, seen[row.pk], now, behind=behind)]
    ended = {row.pk for row in over}
    changed = [
        row
        for row in rows
        if row.pk not in ended and before[row.pk] != [getattr(row, name) for name in _PROBED]
    ]
    if changed:
        Breaker.objects.bulk_update(changed, _PROBED)
    breakers_turn(writes, closed=over, now=now)


def _step(breaker: Breaker, seen: _Watched, now: datetime, *, behind: bool) -> bool:
    """Move one breaker on. Return whether it closed."""
    if reason := _over(breaker, seen, now, behind=behind):
        closed(breaker, now, reason=reason)
        return True
    if breaker.probe is not None:
        end = _probe_end(breaker, seen, now)
        if end is ProbeEnd.CLOSES:
            good = seen.status == "TERMINATED"
            reason = "the probe succeeded" if good else "the probe failed with another signature"
            closed(breaker, now, reason=reason)
            return True
        if end is None:
            return False
        if end is ProbeEnd.FAILED:
            breaker.probe_delay = next_delay(breaker.probe_delay)
            breaker.probe_at = now + timedelta(seconds=breaker.probe_delay)
        else:
            breaker.probe_at = now
        breaker.probe, breaker.probe_since = None, None
    due = breaker.probe_at is None or breaker.probe_at <= now
    if due and seen.following is not None:
        breaker.probe, breaker.probe_since, breaker.probe_at = seen.following, now, None
        breaker.probes += 1
    return False


def _over(breaker: Breaker, seen: _Watched, now: datetime, *, behind: bool) -> str:
    """Return why a breaker closes without a probe; "" if it does not."""
    if seen.muted:
        return "the signature was muted"
    if breaker.opened_by:
        return ""
    if seen.window is None:
        return "no breaker is set for this scope any more"
    newest = max(filter(None, (breaker.opened_at, seen.failed_at)))
    quiet = now - newest > timedelta(seconds=float(seen.window))
    if quiet and not behind and breaker.probe is None and not seen.holds:
        return "no retry waits for it, and no chain failed so within its window"
    return ""


def _probe_end(breaker: Breaker, seen: _Watched, now: datetime) -> ProbeEnd | None:
    """Return what the probe's end says; None while it has time left."""
    if seen.status is not None and seen.status in FINAL_STATUSES:
        return probe_end(
            breaker.signature,
            status=seen.status,
            signature=seen.signature or "",
            platform=seen.cause in PLATFORM_CAUSES,
        )
    since = breaker.probe_since or now
    waits = seen.decision == "scheduled" or (seen.decision == "held" and seen.held_for == "breaker")
    alive = waits or (seen.decision == "dispatched" and seen.status is not None)
    if not alive or now - since > timedelta(seconds=PROBE_SECONDS):
        return ProbeEnd.HANDED_ON
    return None
