"""The past of chains, as far as their policies look at it: equal failures, retries in a window."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.engine.decide import Rulebook
from retry.engine.decision import Payment
from retry.evidence.causes import FAILURE_CAUSES
from sessions_app.db.bulk import SentRows, array
from sessions_app.locks import LockedSession

_LONGEST = 100 * 365 * 86_400.0
"""Seconds. Longer windows count everything, too."""


class ChainPast(NamedTuple):
    """The signatures of earlier failures, newest first, and the retries of a chain.

    The signature of an attempt that made progress is "".
    """

    failures: tuple[str, ...] = ()
    paid: tuple[Payment, ...] = ()


NOTHING = ChainPast()
_SIGNATURE = """CASE WHEN (s.progress -> 'advanced')::boolean THEN ''
    ELSE s.failure_signature END"""
MOST_READ = 50
"""Attempts of a chain that `PASTS` reads. Longer pasts are read by a statement of their own."""
PASTS = f"""
    SELECT json_object_agg(l.id, p.past)
    FROM l CROSS JOIN LATERAL (
        SELECT json_agg(json_build_array(a.retry_cause, a.signature, a.paid_by, a.decided_at))
            AS past
        FROM (
            SELECT s.retry_cause, {_SIGNATURE} AS signature, d.paid_by, d.decided_at
            FROM sessions_app_session s LEFT JOIN sessions_app_retrydecision d
                ON d.session_id = s.id AND d.state = 'dispatched'
            WHERE s.root_id = l.root_id AND s.retry_count < l.retry_count
            ORDER BY s.retry_count DESC LIMIT {MOST_READ}) a) p
    WHERE l.retry_count BETWEEN 1 AND {MOST_READ} AND (l.retry_policies <> '[]'
        OR l.retry_policy ->> 'stop_after_same' IS NOT NULL
        OR l.retry_policy ->> 'retry_window' IS NOT NULL)
"""
"""SQL of one value about the sessions of a table `l`, for `chain_pasts`: the earlier attempts of
chains whose policies may look at them, newest first. Which of the named ones do is known later."""
_CAUSES = frozenset(cause.value for cause in FAILURE_CAUSES)
_CHAINS = SentRows[[LockedSession, int, datetime]](
    ("id", "uuid", lambda session, _, __: session.id),
    ("root_id", "uuid", lambda session, _, __: session.root_id),
    ("retry_count", "int", lambda session, _, __: session.retry_count),
    ("most", "int", lambda _, most, __: most),
    ("since", "timestamptz", lambda _, __, since: since),
)
# All parts walk the attempts of one chain along the index of their numbers. `o` is the newest one
# that was decided about before the window, found at once (OFFSET 0 keeps it apart): of what came
# before, nobody needs the budgets.
_STATEMENT = f"""
    SELECT v.id, f.signatures, p.budgets, p.times
    FROM {_CHAINS}
    CROSS JOIN LATERAL (
        SELECT array_agg(b.failure_signature ORDER BY b.retry_count DESC) AS signatures FROM (
            SELECT {_SIGNATURE} AS failure_signature, s.retry_count
            FROM sessions_app_session s
            WHERE s.root_id = v.root_id AND s.retry_count < v.retry_count
                AND s.retry_cause = ANY(%s::text[])
            ORDER BY s.retry_count DESC LIMIT v.most) b
    ) f
    CROSS JOIN LATERAL (
        SELECT coalesce((
            SELECT s.retry_count
            FROM sessions_app_session s JOIN sessions_app_retrydecision d ON d.session_id = s.id
            WHERE s.root_id = v.root_id AND s.retry_count < v.retry_count
                AND d.decided_at <= v.since
            ORDER BY s.retry_count DESC LIMIT 1), -1) AS attempt OFFSET 0
    ) o
    CROSS JOIN LATERAL (
        SELECT array_agg(d.paid_by) AS budgets, array_agg(d.decided_at) AS times
        FROM sessions_app_session s JOIN sessions_app_retrydecision d ON d.session_id = s.id
        WHERE s.root_id = v.root_id AND s.retry_count < v.retry_count
            AND s.retry_count > o.attempt AND d.state = 'dispatched'
    ) p
"""


def chain_pasts(
    groups: Iterable[tuple[Sequence[LockedSession], Rulebook]],
    now: datetime,
    read: Mapping[str, Sequence[Any]],
) -> dict[UUID, ChainPast]:
    """Return the past of the chains of failed sessions by session, before these failures.

    A group of sessions has the rules in common. `read` is the value of `PASTS`. One statement reads
    what it lacks; none if no policy looks at the past. Leaves out what no policy looks at.
    """
    found: dict[UUID, ChainPast] = {}
    rest: list[tuple[LockedSession, int, datetime]] = []
    for sessions, rules in groups:
        if not (rules.most_same or rules.longest_window):
            continue
        most, since = max(rules.most_same - 1, 0), _since(rules.longest_window, now)
        for session in sessions:
            if attempts := read.get(str(session.id)):
                found[session.id] = _past(attempts, most, since)
            elif session.retry_count:
                rest.append((session, most, since))
    return found | _read(rest) if rest else found


def _past(attempts: Sequence[Any], most: int, since: datetime) -> ChainPast:
    """Return the past in the attempts that `PASTS` has read, newest first."""
    failures = [signature for cause, signature, _, _ in attempts if cause in _CAUSES]
    paid = [
        Payment(paid_by, decided_at)
        for _, _, paid_by, text in attempts
        if text is not None and (decided_at := datetime.fromisoformat(text)) > since
    ]
    return ChainPast(tuple(failures[:most]), tuple(paid))


def _read(rows: Sequence[tuple[LockedSession, int, datetime]]) -> dict[UUID, ChainPast]:
    chains = _CHAINS.arrays(*zip(*rows, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, [*chains, array(sorted(_CAUSES))])
        return {
            key: ChainPast(
                tuple(signatures or ()),
                tuple(map(Payment, budgets or (), times or ())),
            )
            for key, signatures, budgets, times in cursor.fetchall()
        }


def _since(window: float, now: datetime) -> datetime:
    return now - timedelta(seconds=min(window, _LONGEST))
