"""The past of chains, as far as their policies look at it: equal failures, retries in a window."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.engine.decide import Rulebook
from retry.engine.decision import Payment
from retry.evidence.causes import FAILURE_CAUSES
from sessions_app.db.bulk import array
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
# Both parts walk the attempts of one chain along the index of their numbers.
_READ = """
    SELECT v.id, f.signatures, p.budgets, p.times
    FROM unnest(%(id)s::uuid[], %(root_id)s::uuid[], %(retry_count)s::int[], %(most)s::int[],
            %(since)s::timestamptz[]) AS v(id, root_id, retry_count, most, since)
    CROSS JOIN LATERAL (
        SELECT array_agg(b.failure_signature ORDER BY b.retry_count DESC) AS signatures FROM (
            SELECT CASE WHEN (s.progress -> 'advanced')::boolean THEN ''
                ELSE s.failure_signature END AS failure_signature, s.retry_count
            FROM sessions_app_session s
            WHERE s.root_id = v.root_id AND s.retry_count < v.retry_count
                AND s.retry_cause = ANY(%(causes)s::text[])
            ORDER BY s.retry_count DESC LIMIT v.most) b
    ) f
    CROSS JOIN LATERAL (
        SELECT array_agg(d.paid_by) AS budgets, array_agg(d.decided_at) AS times
        FROM sessions_app_session s JOIN sessions_app_retrydecision d ON d.session_id = s.id
        WHERE s.root_id = v.root_id AND s.retry_count < v.retry_count
            AND d.state = 'dispatched' AND d.decided_at > v.since
    ) p
"""


def chain_pasts(
    sessions: Sequence[tuple[LockedSession, Rulebook]], now: datetime
) -> dict[UUID, ChainPast]:
    """Return the past of the chains of failed sessions by session, before these failures.

    One statement, and none if no policy looks at the past. Leaves out what no policy looks at.
    """
    rows = [
        (session, max(rules.most_same - 1, 0), _since(rules.longest_window, now))
        for session, rules in sessions
        if session.retry_count and (rules.most_same or rules.longest_window)
    ]
    if not rows:
        return {}
    given: dict[str, Sequence[Any]] = {
        "id": [session.id for session, _, _ in rows],
        "root_id": [session.root_id for session, _, _ in rows],
        "retry_count": [session.retry_count for session, _, _ in rows],
        "most": [most for _, most, _ in rows],
        "since": [since for _, _, since in rows],
    }
    causes = [cause.value for cause in FAILURE_CAUSES]
    with connection.cursor() as cursor:
        cursor.execute(_READ, {**{n: array(v) for n, v in given.items()}, "causes": array(causes)})
        return {
            key: ChainPast(
                tuple(signatures or ()),
                tuple(map(Payment, budgets or (), times or ())),
            )
            for key, signatures, budgets, times in cursor.fetchall()
        }


def _since(window: float, now: datetime) -> datetime:
    return now - timedelta(seconds=min(window, _LONGEST))
