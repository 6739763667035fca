"""The outbox of webhooks: senders claim deliveries from it and record the outcomes.

Each function is one short transaction with a fixed number of statements for any number of
deliveries, under one lock. No transaction stays open while something is sent: it would hold up
everybody who follows the log.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection

from sessions_app.audit.context import ENGINE, audited
from sessions_app.db.bulk import SentRows, array, columns
from sessions_app.db.steps import atomic_step
from sessions_app.eventlog.reading import COLUMNS, LoggedEvent, logged
from sessions_app.locks import database_now, lock_webhooks
from sessions_app.models.webhooks import MAX_REASON
from sessions_app.webhooks.rules import Answer, Result, Verdict

CLAIM_SECONDS = 60
"""Seconds after which a delivery whose sender reported nothing is sent again."""
PER_HOST = 4
"""Maximum concurrent attempts to one host; a failing host gets one at a time."""
PER_PROJECT, PER_DOMAIN = 8, 16
"""Maximum concurrent attempts per project and domain: no tenant can hold all senders."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery claimed for `CLAIM_SECONDS`; `event` is None if the log does not have it."""

    id: int
    endpoint_id: UUID
    claim: UUID
    url: str
    secrets: tuple[str, ...]
    """As they are stored, the present one first."""
    attempts: int
    """Number of attempts, including this one."""
    event_id: int | None
    event: LoggedEvent | None
    project: str
    created_at: datetime
    type: str
    data: dict[str, Any] | None
    """What an event of the cluster says; None for all others."""

    @property
    def ping(self) -> bool:
        """Return whether it is a ping."""
        return self.event_id is None and self.data is None


# Only the heads of each webhook are read, a fixed number of them, whatever waits behind. Each limit
# counts what the limits before it let through, so that a delivery which has to wait for its host
# does not take up a place of its project.
_CLAIM = f"""
    WITH busy AS MATERIALIZED (
        SELECT w.host, w.project_id, p.domain_id FROM sessions_app_webhookdelivery d
        JOIN sessions_app_webhookendpoint w ON w.id = d.endpoint_id
        JOIN sessions_app_project p ON p.id = w.project_id
        WHERE d.claim IS NOT NULL AND d.due_at > %(now)s),
    due AS MATERIALIZED (
        SELECT h.id, h.due_at, w.host, w.project_id, w.failures FROM sessions_app_webhookendpoint w
        CROSS JOIN LATERAL (
            SELECT id, due_at FROM sessions_app_webhookdelivery
            WHERE endpoint_id = w.id AND due_at <= %(now)s ORDER BY due_at LIMIT {PER_HOST}) AS h
        WHERE w.paused_at IS NULL
        UNION
        SELECT d.id, d.due_at, w.host, w.project_id, 0 FROM sessions_app_webhookdelivery d
        JOIN sessions_app_webhookendpoint w ON w.id = d.endpoint_id
        WHERE d.event_id IS NULL AND d.data IS NULL AND d.due_at <= %(now)s
            AND w.paused_at IS NOT NULL),
    of_host AS (
        SELECT d.id, d.due_at, d.project_id, coalesce(b.count, 0)
                + row_number() OVER (PARTITION BY d.host ORDER BY d.due_at, d.id) AS place,
            CASE WHEN max(d.failures) OVER (PARTITION BY d.host) > 0 THEN 1 ELSE {PER_HOST} END
                AS most
        FROM due d
        LEFT JOIN (SELECT host, count(*) FROM busy GROUP BY host) AS b ON b.host = d.host),
    of_project AS (
        SELECT h.id, h.due_at, p.domain_id, coalesce(b.count, 0)
                + row_number() OVER (PARTITION BY h.project_id ORDER BY h.due_at, h.id) AS place
        FROM of_host h JOIN sessions_app_project p ON p.id = h.project_id
        LEFT JOIN (SELECT project_id, count(*) FROM busy GROUP BY project_id) AS b
            ON b.project_id = h.project_id
        WHERE h.place <= h.most),
    of_domain AS (
        SELECT p.id, p.due_at, coalesce(b.count, 0)
                + row_number() OVER (PARTITION BY p.domain_id ORDER BY p.due_at, p.id) AS place
        FROM of_project p
        LEFT JOIN (SELECT domain_id, count(*) FROM busy GROUP BY domain_id) AS b
            ON b.domain_id = p.domain_id
        WHERE p.place <= {PER_PROJECT}),
    taken AS (
        UPDATE sessions_app_webhookdelivery d SET claim = %(claim)s, attempts = d.attempts + 1,
            attempted_at = %(now)s, due_at = %(now)s::timestamptz + make_interval(secs => %(hold)s)
        FROM (SELECT id FROM of_domain WHERE place <= {PER_DOMAIN}
            ORDER BY due_at, id LIMIT %(limit)s) AS c
        WHERE d.id = c.id
        RETURNING d.id, d.endpoint_id, d.attempts, d.event_id, d.created_at, d.type, d.data)
    SELECT t.id, t.endpoint_id, w.url, w.secret,
        CASE WHEN w.previous_secret_until > %(now)s THEN w.previous_secret END,
        t.attempts, t.event_id, d.name || '/' || p.name, t.created_at, t.type, t.data::text,
        {COLUMNS}
    FROM taken t JOIN sessions_app_webhookendpoint w ON w.id = t.endpoint_id
    JOIN sessions_app_project p ON p.id = w.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    LEFT JOIN sessions_app_sessionevent e ON e.id = t.event_id
    ORDER BY t.id
"""


def deliveries_claim(limit: int) -> list[Claimed]:
    """Claim at most `limit` due deliveries, within the limits of host, project and domain."""
    claim = uuid4()
    with atomic_step("webhook_claim"):
        lock_webhooks()
        wanted: dict[str, Any] = {
            "claim": claim,
            "now": database_now(),
            "hold": CLAIM_SECONDS,
            "limit": limit,
        }
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM, wanted)
            return [_claimed(row, claim) for row in cursor.fetchall()]


def _claimed(row: tuple[Any, ...], claim: UUID) -> Claimed:
    (
        number,
        endpoint,
        url,
        secret,
        previous,
        attempts,
        event_id,
        project,
        created_at,
        kind,
        data,
        *event_columns,
    ) = row
    secrets = (secret, previous) if previous else (secret,)
    event = None if event_columns[2] is None else logged(tuple(event_columns))
    return Claimed(
        *(number, endpoint, claim, url, secrets, attempts, event_id, event, project, created_at),
        *(kind, None if data is None else json.loads(data)),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt."""

    claimed: Claimed
    answer: Answer
    verdict: Verdict


_STATES = {
    Result.DELIVERED: "delivered",
    Result.AGAIN: "waiting",
    Result.GIVEN_UP: "failed",
    Result.GONE: "failed",
}
_TRIED = SentRows[[Outcome]](
    ("id", "bigint", lambda tried: tried.claimed.id),
    ("claim", "uuid", lambda tried: tried.claimed.claim),
    ("state", "text", lambda tried: _STATES[tried.verdict.result]),
    ("delay", "float8", lambda tried: tried.verdict.delay),
    ("code", "int", lambda tried: tried.answer.code),
    ("excerpt", "text", lambda tried: tried.answer.excerpt),
    ("error", "text", lambda tried: tried.answer.error[:MAX_REASON]),
    ("latency", "int", lambda tried: tried.answer.latency_ms),
)
# Only deliveries that still belong to this sender: a sender that was cut off may come back late.
_RECORD = f"""
    UPDATE sessions_app_webhookdelivery d SET state = v.state, claim = NULL,
        due_at = CASE WHEN v.state = 'waiting'
            THEN %s::timestamptz + make_interval(secs => v.delay) END,
        finished_at = CASE WHEN v.state <> 'waiting' THEN %s::timestamptz END,
        response_code = v.code, response_excerpt = v.excerpt, error = v.error,
        latency_ms = v.latency
    FROM {_TRIED}
    WHERE d.id = v.id AND d.claim = v.claim
    RETURNING d.id, d.endpoint_id, d.session_id, d.state
"""
_PROMOTE = """
    UPDATE sessions_app_webhookdelivery d SET due_at = %s
    FROM (SELECT n.id FROM (SELECT DISTINCT * FROM unnest(%s::uuid[], %s::uuid[])
            AS v(endpoint_id, session_id)) AS v
        CROSS JOIN LATERAL (SELECT id, due_at FROM sessions_app_webhookdelivery
            WHERE endpoint_id = v.endpoint_id AND session_id = v.session_id AND state = 'waiting'
            ORDER BY id LIMIT 1) AS n
        WHERE n.due_at IS NULL) AS heads
    WHERE d.id = heads.id
"""
_HEALTH = """
    UPDATE sessions_app_webhookendpoint w SET
        failures = CASE WHEN v.ok THEN v.failed ELSE w.failures + v.failed END,
        failing_since = CASE WHEN v.failed = 0 THEN NULL WHEN v.ok THEN %s::timestamptz
            ELSE coalesce(w.failing_since, %s::timestamptz) END
    FROM unnest(%s::uuid[], %s::boolean[], %s::int[]) AS v(id, ok, failed)
    WHERE w.id = v.id AND (v.failed > 0 OR w.failures > 0)
"""
_PAUSE = """
    UPDATE sessions_app_webhookendpoint w SET paused_at = %(now)s,
        paused_reason = CASE WHEN w.id = ANY(%(gone)s::uuid[])
            THEN 'the receiver answered 410 Gone'
            ELSE w.failures || ' attempts failed in a row' END,
        epoch = coalesce(w.epoch, r.epoch), xid = coalesce(w.xid, r.xid),
        event_id = coalesce(w.event_id, r.event_id)
    FROM sessions_app_webhookreader r
    WHERE w.id = ANY(%(ids)s::uuid[]) AND w.paused_at IS NULL AND (w.id = ANY(%(gone)s::uuid[])
            OR w.failures >= %(failures)s
                AND w.failing_since <= %(now)s::timestamptz - make_interval(secs => %(after)s))
"""


def outcomes_record(outcomes: Sequence[Outcome]) -> None:
    """Record the outcomes of attempts; the next deliveries of their sessions become due.

    Webhooks whose receiver is gone or has failed for long are paused.
    """
    if not outcomes:
        return
    with atomic_step("webhook_record"), connection.cursor() as cursor:
        lock_webhooks()
        now = database_now()
        cursor.execute(_RECORD, [now, now, *_TRIED.arrays(outcomes)])
        kept = cursor.fetchall()
        ended = [(row[1], row[2]) for row in kept if row[3] != "waiting" and row[2] is not None]
        if ended:
            cursor.execute(_PROMOTE, [now, *columns(ended)])
        known = {row[0] for row in kept}
        # A ping does not count for the health of a webhook.
        deliveries = [o for o in outcomes if o.claimed.id in known and not o.claimed.ping]
        _update_health(deliveries, now)


def _update_health(outcomes: Iterable[Outcome], now: datetime) -> None:
    by_endpoint: dict[UUID, list[Result]] = defaultdict(list)
    for outcome in outcomes:
        by_endpoint[outcome.claimed.endpoint_id].append(outcome.verdict.result)
    if not by_endpoint:
        return
    rows = []
    for endpoint, results in by_endpoint.items():
        good = [n for n, each in enumerate(results) if each is Result.DELIVERED]
        failed = len(results) - (good[-1] + 1 if good else 0)
        rows.append((endpoint, bool(good), failed))
    gone = {e for e, results in by_endpoint.items() if Result.GONE in results}
    limits = settings.REPRISE
    with connection.cursor() as cursor:
        cursor.execute(_HEALTH, [now, now, *columns(sorted(rows, key=lambda row: str(row[0])))])
        wanted: dict[str, Any] = {
            "now": now,
            "ids": array(by_endpoint),
            "gone": array(gone),
            "failures": int(limits["webhook_pause_failures"]),
            "after": limits["webhook_pause_after"],
        }
        with audited(by=ENGINE, action="webhook.pause"):
            cursor.execute(_PAUSE, wanted)
