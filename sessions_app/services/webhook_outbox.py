"""The outbox of webhooks: from the log into it, out of it to a sender, and what came of that.

Each function is one short transaction of a fixed number of statements, however many events or
deliveries it moves, under one lock. No transaction lasts while something is sent: it would hold up
everybody who follows the log.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection

from sessions_app.audit_context import ENGINE, audited
from sessions_app.bulk import array, columns
from sessions_app.cursors import START, Cursor
from sessions_app.event_log import COLUMNS, LoggedEvent, logged
from sessions_app.failpoints import atomic_step
from sessions_app.locks import database_now, lock_webhooks
from sessions_app.models.webhooks import MAX_REASON
from sessions_app.webhook_rules import Answer, Result, Verdict

SLICE = 2_000
"""Events of the log that one transaction passes over."""
CLAIM_SECONDS = 60
"""After which a delivery whose sender said nothing more is sent again."""
PER_HOST = 4
"""Attempts on their way to one host at once; one that is failing gets one at a time."""
MOST_WAITING = 10_000
"""Deliveries that wait for one webhook; what comes after them waits in the log."""

_HERE = "SELECT reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot())::text"
_READER = "SELECT epoch, xid::text, event_id FROM sessions_app_webhookreader WHERE id = 1"
_SET_READER = """
    INSERT INTO sessions_app_webhookreader (id, epoch, xid, event_id) VALUES (1, %s, %s::xid8, %s)
    ON CONFLICT (id) DO UPDATE
    SET epoch = excluded.epoch, xid = excluded.xid, event_id = excluded.event_id
"""
_SET_OWN = """
    UPDATE sessions_app_webhookendpoint
    SET epoch = %s::bigint, xid = %s::xid8, event_id = %s::bigint WHERE id = %s
"""
_FOLLOWED = """
    SELECT EXISTS (SELECT FROM sessions_app_webhookendpoint
        WHERE paused_at IS NULL AND epoch IS NULL)
"""
# Those whose outbox is full wait until some of it has gone.
_BEHIND = """
    SELECT id, epoch, xid::text, event_id FROM sessions_app_webhookendpoint w
    WHERE paused_at IS NULL AND epoch IS NOT NULL AND (
        SELECT count(*) FROM (SELECT FROM sessions_app_webhookdelivery
            WHERE endpoint_id = w.id AND state = 'waiting' LIMIT %(most)s) AS first) < %(most)s
    ORDER BY id LIMIT 100
"""
# The first event of the next life of the database: its ids are behind all of the one before.
_NEXT_EPOCH = """
    SELECT epoch FROM sessions_app_sessionevent WHERE id > %s AND epoch > %s ORDER BY id LIMIT 1
"""
# `early`: an event that comes before one of this slice in its session, but not in the log, because
# its transaction was the younger one and the first to have the session. It must not come later.
# OFFSET 0: looked for by the session alone; all that is young is much more.
_READ = """
    WITH fresh AS MATERIALIZED (
        SELECT id, xid, session_id, project_id, type, seq FROM sessions_app_sessionevent
        WHERE epoch = %(epoch)s AND xid >= %(xid)s::xid8 AND (xid, id) > (%(xid)s::xid8, %(id)s)
            AND (xid, id) <= (%(to_xid)s::xid8, %(to_id)s)
        ORDER BY xid, id LIMIT %(limit)s),
    reached AS MATERIALIZED (
        SELECT count(*) AS passed, max(xid::text::numeric) AS xid FROM fresh),
    early AS (
        SELECT e.* FROM fresh f CROSS JOIN LATERAL (
            SELECT id, xid, session_id, project_id, type, seq, epoch
            FROM sessions_app_sessionevent
            WHERE session_id = f.session_id AND seq < f.seq OFFSET 0) AS e
        WHERE (SELECT passed FROM reached) = %(limit)s AND e.epoch = %(epoch)s
            AND e.xid >= (SELECT xid FROM reached)::text::xid8
            AND (e.xid, e.id) <= (%(to_xid)s::xid8, %(to_id)s)),
    wanted AS MATERIALIZED (
        SELECT w.id AS endpoint_id, e.id, e.session_id, e.type, e.seq
        FROM (SELECT * FROM fresh UNION
            SELECT id, xid, session_id, project_id, type, seq FROM early) AS e
        JOIN sessions_app_webhookendpoint w ON w.project_id = e.project_id AND w.paused_at IS NULL
            AND (w.id = %(endpoint)s::uuid
                OR %(endpoint)s::uuid IS NULL AND w.epoch IS NULL)
        WHERE (w.event_types = '{}' OR EXISTS (
                SELECT FROM unnest(w.event_types) AS t(name) WHERE t.name = e.type
                OR right(t.name, 1) = '*' AND starts_with(e.type, left(t.name, -1))))
            AND NOT EXISTS (SELECT FROM sessions_app_webhookdelivery d
                WHERE d.endpoint_id = w.id AND d.event_id = e.id AND NOT d.redelivery)),
    made AS (
        INSERT INTO sessions_app_webhookdelivery
            (endpoint_id, event_id, session_id, type, state, attempts, due_at, redelivery,
             created_at, response_excerpt, error)
        SELECT endpoint_id, id, session_id, type, 'waiting', 0, CASE WHEN
                row_number() OVER (PARTITION BY endpoint_id, session_id ORDER BY seq) = 1
                AND NOT EXISTS (SELECT FROM sessions_app_webhookdelivery d
                    WHERE d.endpoint_id = w.endpoint_id AND d.session_id = w.session_id
                        AND d.state = 'waiting')
            THEN %(now)s::timestamptz END, false, %(now)s, '', ''
        FROM wanted w ORDER BY session_id, seq, endpoint_id
        RETURNING id)
    SELECT passed, xid::text, (SELECT max(id) FROM fresh WHERE xid = r.xid::text::xid8),
        (SELECT count(*) FROM made)
    FROM reached r
"""
_LAST = 2**64 - 1, 2**63 - 1


class Read(NamedTuple):
    """What one look at the log brought."""

    passed: int
    made: int
    more: bool
    """There was more than one slice."""


def position_here() -> Cursor:
    """The end of the log: before it nothing can be written any more."""
    with connection.cursor() as cursor:
        cursor.execute(_HERE)
        epoch, xmin = cursor.fetchone()
    return Cursor(epoch, int(xmin), 0)


def position_shared() -> Cursor:
    """That of the webhooks that keep up; under the lock of the outbox."""
    with connection.cursor() as cursor:
        cursor.execute(_READER)
        found = cursor.fetchone()
    return START if found is None else Cursor(found[0], int(found[1]), found[2])


def log_read(limit: int = SLICE) -> Read:
    """Put the next slice of the log into the outbox of all webhooks that keep up."""
    with atomic_step("webhook_read"):
        lock_webhooks()
        here, before = position_here(), position_shared()
        with connection.cursor() as cursor:
            cursor.execute(_FOLLOWED)
            if cursor.fetchone() == (False,):
                place, read = here, Read(0, 0, more=False)
            else:
                place, read = _step(before, here, None, limit)
            if place != before:
                cursor.execute(_SET_READER, _parts(place))
    return read


def log_read_behind(limit: int = SLICE) -> bool:
    """A slice for each webhook that is behind; whether any of them has more before it."""
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, {"most": MOST_WAITING})
        behind = cursor.fetchall()
    more = [_read_behind(row[0], limit) for row in behind]
    return any(more)


def _read_behind(endpoint: UUID, limit: int) -> bool:
    with atomic_step("webhook_read"):
        lock_webhooks()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT epoch, xid::text, event_id FROM sessions_app_webhookendpoint "
                "WHERE id = %s AND paused_at IS NULL AND epoch IS NOT NULL",
                [endpoint],
            )
            row = cursor.fetchone()
            if row is None:
                return False
            own, shared = Cursor(row[0], int(row[1]), row[2]), position_shared()
            # In the middle of a slice, what is before a place in its session may lie behind it.
            if own > shared or shared.id:
                return False
            place, read = _step(own, shared, endpoint, limit)
            joined = place >= shared
            cursor.execute(_SET_OWN, [*((None,) * 3 if joined else _parts(place)), endpoint])
    return not joined or read.more


def _parts(place: Cursor) -> tuple[int, str, int]:
    return place.epoch, str(place.xid), place.id


def _step(place: Cursor, end: Cursor, endpoint: UUID | None, limit: int) -> tuple[Cursor, Read]:
    """Read on from a place, no further than to `end`; the place then reached."""
    same_life = place.epoch == end.epoch
    # What is before the transaction of `end` is passed whole; of an earlier life, all there is.
    to = (end.xid, end.id) if same_life else _LAST
    wanted: dict[str, Any] = {
        "epoch": place.epoch,
        "xid": str(place.xid),
        "id": place.id,
        "to_xid": str(to[0]),
        "to_id": to[1],
        "endpoint": endpoint,
        "limit": limit,
        "now": database_now(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ, wanted)
        passed, last_xid, last_id, made = cursor.fetchone()
        if passed == limit:
            return Cursor(place.epoch, int(last_xid), last_id), Read(passed, made, more=True)
        if same_life:
            # A place that nothing was read behind stays: it need not be written again.
            return (end if passed or endpoint else place), Read(passed, made, more=False)
        cursor.execute(_NEXT_EPOCH, [place.id, place.epoch])
        following = cursor.fetchone()
    return Cursor(following[0] if following else end.epoch, 0, 0), Read(passed, made, more=True)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is this sender's for `CLAIM_SECONDS`; without `event` the log has lost it."""

    id: int
    endpoint_id: UUID
    claim: UUID
    url: str
    secrets: tuple[str, ...]
    attempts: int
    """This one included."""
    event_id: int | None
    event: LoggedEvent | None
    project: str
    created_at: datetime


# Heads are few for each webhook, and a fixed number of them is looked at, whatever waits there.
_CLAIM = f"""
    WITH busy AS MATERIALIZED (
        SELECT w.host, count(*) AS count FROM sessions_app_webhookdelivery d
        JOIN sessions_app_webhookendpoint w ON w.id = d.endpoint_id
        WHERE d.claim IS NOT NULL AND d.due_at > %(now)s GROUP BY w.host),
    due AS MATERIALIZED (
        SELECT h.id, h.due_at, w.host, w.failures FROM sessions_app_webhookendpoint w
        CROSS JOIN LATERAL (
            SELECT id, due_at FROM sessions_app_webhookdelivery
            WHERE endpoint_id = w.id AND due_at <= %(now)s ORDER BY due_at LIMIT {PER_HOST}) AS h
        WHERE w.paused_at IS NULL
        UNION
        SELECT p.id, p.due_at, w.host, 0 FROM sessions_app_webhookdelivery p
        JOIN sessions_app_webhookendpoint w ON w.id = p.endpoint_id
        WHERE p.event_id IS NULL AND p.due_at <= %(now)s AND w.paused_at IS NOT NULL),
    placed AS (
        SELECT d.id, d.due_at, coalesce(b.count, 0)
                + row_number() OVER (PARTITION BY d.host ORDER BY d.due_at, d.id) AS place,
            CASE WHEN max(d.failures) OVER (PARTITION BY d.host) > 0 THEN 1 ELSE {PER_HOST} END
                AS most
        FROM due d LEFT JOIN busy b ON b.host = d.host),
    taken AS (
        UPDATE sessions_app_webhookdelivery d SET claim = %(claim)s, attempts = d.attempts + 1,
            attempted_at = %(now)s, due_at = %(now)s::timestamptz + make_interval(secs => %(hold)s)
        FROM (SELECT id FROM placed WHERE place <= most ORDER BY due_at, id LIMIT %(limit)s) AS c
        WHERE d.id = c.id
        RETURNING d.id, d.endpoint_id, d.attempts, d.event_id, d.created_at)
    SELECT t.id, t.endpoint_id, w.url, w.secret,
        CASE WHEN w.previous_secret_until > %(now)s THEN w.previous_secret END,
        t.attempts, t.event_id, d.name || '/' || p.name, t.created_at, {COLUMNS}
    FROM taken t JOIN sessions_app_webhookendpoint w ON w.id = t.endpoint_id
    JOIN sessions_app_project p ON p.id = w.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    LEFT JOIN sessions_app_sessionevent e ON e.id = t.event_id
    ORDER BY t.id
"""  # noqa: S608  # constants


def deliveries_claim(limit: int) -> list[Claimed]:
    """Take up to so many deliveries that are due, no more for a host than it may have at once."""
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
    number, endpoint, url, secret, previous, attempts, event_id, project, created_at, *told = row
    secrets = (secret, previous) if previous else (secret,)
    event = None if told[2] is None else logged(tuple(told))
    return Claimed(
        number, endpoint, claim, url, secrets, attempts, event_id, event, project, created_at
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt."""

    claimed: Claimed
    answer: Answer
    verdict: Verdict


_STATES = {
    Result.DELIVERED: "delivered",
    Result.AGAIN: "waiting",
    Result.GIVEN_UP: "failed",
    Result.GONE: "failed",
}
# Only what is still this sender's: one that came back from the dead has nothing to say.
_RECORD = """
    UPDATE sessions_app_webhookdelivery d SET state = v.state, claim = NULL,
        due_at = CASE WHEN v.state = 'waiting'
            THEN %s::timestamptz + make_interval(secs => v.delay) END,
        finished_at = CASE WHEN v.state <> 'waiting' THEN %s::timestamptz END,
        response_code = v.code, response_excerpt = v.excerpt, error = v.error,
        latency_ms = v.latency
    FROM unnest(%s::bigint[], %s::uuid[], %s::text[], %s::float8[], %s::int[], %s::text[],
        %s::text[], %s::int[]) AS v(id, claim, state, delay, code, excerpt, error, latency)
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
    """Write down what came of attempts; the next ones of their sessions are due then.

    Webhooks whose receiver is gone or has failed for long are paused.
    """
    if not outcomes:
        return
    with atomic_step("webhook_record"), connection.cursor() as cursor:
        lock_webhooks()
        now = database_now()
        cursor.execute(_RECORD, [now, now, *columns([_row(each) for each in outcomes])])
        kept = cursor.fetchall()
        ended = [(row[1], row[2]) for row in kept if row[3] != "waiting" and row[2] is not None]
        if ended:
            cursor.execute(_PROMOTE, [now, *columns(ended)])
        known = {row[0] for row in kept}
        # A ping says nothing of how a webhook does.
        told = [o for o in outcomes if o.claimed.id in known and o.claimed.event_id is not None]
        _judge_health(told, now)


def _row(outcome: Outcome) -> tuple[Any, ...]:
    answer, verdict = outcome.answer, outcome.verdict
    return (
        outcome.claimed.id,
        outcome.claimed.claim,
        _STATES[verdict.result],
        verdict.delay,
        answer.code,
        answer.excerpt,
        answer.error[:MAX_REASON],
        answer.latency_ms,
    )


def _judge_health(outcomes: Iterable[Outcome], now: datetime) -> None:
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
