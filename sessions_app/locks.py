"""Every row lock and advisory lock on the records, by name.

Order: a policy's name, policy, queue or settings, root, session, lease, decision, retry slots,
usage. The outbox of webhooks has a lock of its own, under which none of these is taken.
Whoever changes a chain locks its root first, so that one chain is changed by one transaction at a
time; only the lease round, which takes waiting sessions, locks a session without its root, and
skips what it cannot have.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.bulk import array, columns
from sessions_app.states import Status


class AdvisoryLock(IntEnum):
    """Keys of advisory locks; one number space for the whole database."""

    BEAT = 0x5245_0001
    MIGRATE = 0x5245_0002
    POLICY_NAME = 0x5245_0003
    """With the hash of the name that a policy is made under, wherever that is."""
    RETRY_SLOTS = 0x5245_0004
    QUEUE_USAGE = 0x5245_0005
    WEBHOOKS = 0x5245_0006


def lock_slots() -> None:
    """Let no other transaction give or take slots of the storm limits until this one has ended.

    One lock for all: who looks for a free minute must see every slot that was given before.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.RETRY_SLOTS])


def lock_webhooks() -> None:
    """Let no other transaction move the outbox of webhooks until this one has ended.

    One lock for all: who puts an event behind those of its session that wait must see whether one
    still does, and who counts what is on its way to a host must see all of it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.WEBHOOKS])


class LockedSession(NamedTuple):
    """What the services need to know of a session that they hold. JSON columns come as text."""

    id: UUID
    root_id: UUID
    parent_id: UUID | None
    project_id: int
    queue_id: int
    job_set: str
    session_type: str
    status: Status
    retry_count: int
    tip: bool
    retry_policy: str
    retry_policies: tuple[str, ...]
    retry_counters: dict[str, int]
    retry_state: str
    root_submitted_at: datetime
    cancel_requested_at: datetime | None
    fencing_token: int | None
    report_seq: int
    event_seq: int
    accepted_at: datetime | None
    node: str
    executor: str
    lease_returns: int
    avoid_executors: list[str]
    terminating_at: datetime | None
    preempt_requested_at: datetime | None
    start_failure: str | None
    limited: bool
    """Whether counters of quotas follow it. If not, none will until this transaction ends."""


# Finds nothing, but takes the lock of the table that whoever moves a counter takes: no counter is
# made (`usage_stop`) until the transaction that has looked for some has ended.
_NO_NEW_COUNTERS = "EXISTS (SELECT FROM sessions_app_projectusage WHERE false FOR KEY SHARE)"
SESSION_COLUMNS = f"""
    s.id, s.root_id, s.parent_id, s.project_id, s.queue_id, s.job_set, s.session_type, s.status,
    s.retry_count, s.tip, s.retry_policy::text, s.retry_policies, s.retry_counters, s.retry_state,
    s.root_submitted_at, r.cancel_requested_at, s.fencing_token, s.report_seq, s.event_seq,
    s.accepted_at, s.node, s.executor, s.lease_returns,
    s.avoid_executors, s.terminating_at, s.preempt_requested_at, s.start_failure::text,
    EXISTS (SELECT FROM sessions_app_projectusage u WHERE u.project_id = s.project_id)
        OR EXISTS (SELECT FROM sessions_app_projectusage u
            JOIN sessions_app_project p ON p.domain_id = u.domain_id WHERE p.id = s.project_id)
        OR {_NO_NEW_COUNTERS}
"""  # noqa: S608  # as below
_STATUS, _POLICIES, _COUNTERS, _AVOIDED = map(
    LockedSession._fields.index,
    ("status", "retry_policies", "retry_counters", "avoid_executors"),
)

# Once the sessions are known, a transaction finds all its rows by their ids: nothing is won by
# planning its statements anew for each batch, which for one session takes PostgreSQL as long as
# all the rest.
_KEEP_PLANS = "(SELECT set_config('plan_cache_mode', 'force_generic_plan', true))"
_LOCK_ROOTS = f"""
    SELECT r.id, {_KEEP_PLANS} FROM sessions_app_session r
    WHERE r.id IN (SELECT root_id FROM sessions_app_session WHERE id = ANY(%s::uuid[]))
    ORDER BY r.id FOR NO KEY UPDATE
"""  # noqa: S608  # constants
# The second statement sees what the holders of the root locks committed before.
_LOCK_SESSIONS = f"""
    SELECT {SESSION_COLUMNS}
    FROM sessions_app_session s JOIN sessions_app_session r ON r.id = s.root_id
    WHERE s.id = ANY(%s::uuid[]) AND s.root_id = ANY(%s::uuid[])
    ORDER BY s.id FOR NO KEY UPDATE OF s
"""  # noqa: S608  # constants
_LOCK_CHAINS = f"""
    SELECT {SESSION_COLUMNS}
    FROM sessions_app_session s JOIN sessions_app_session r ON r.id = s.root_id
    WHERE s.root_id = ANY(%s::uuid[]) AND (s.tip OR s.id = s.root_id)
    ORDER BY s.id FOR NO KEY UPDATE OF s
"""  # noqa: S608  # as above


def database_now() -> datetime:
    """The clock of the database at this statement: the one that deadlines are judged by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row: tuple[datetime] = cursor.fetchone()
    return row[0]


def lock_sessions(ids: Sequence[UUID], *, skip_locked: bool = False) -> list[LockedSession]:
    """Lock the roots of these sessions, then the sessions; those that exist, ordered by id.

    With `skip_locked`, sessions whose chain another transaction holds are left out.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_ROOTS + (" SKIP LOCKED" if skip_locked else ""), [array(ids)])
        roots = [row[0] for row in cursor.fetchall()]
    return lock_sessions_of(roots, ids) if roots else []


def lock_sessions_of(roots: Iterable[UUID], ids: Iterable[UUID]) -> list[LockedSession]:
    """Lock sessions of chains whose roots the caller has locked; those that exist, by id."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_SESSIONS, [array(ids), array(roots)])
        return [locked_session(row) for row in cursor.fetchall()]


class LockedChain(NamedTuple):
    """The first and the newest attempt of a chain; of a chain of one they are the same."""

    root: LockedSession
    tip: LockedSession


def lock_chains(root_ids: Sequence[UUID]) -> dict[UUID, LockedChain]:
    """Lock the roots and the newest attempts of chains, by root id; those that exist."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_ROOTS, [array(root_ids)])
        cursor.execute(_LOCK_CHAINS, [array(root_ids)])
        rows = [locked_session(row) for row in cursor.fetchall()]
    tips = {row.root_id: row for row in rows if row.tip}
    return {row.id: LockedChain(row, tips[row.id]) for row in rows if row.id == row.root_id}


def locked_session(row: Sequence[Any]) -> LockedSession:
    """A row of `SESSION_COLUMNS`."""
    values = list(row)
    values[_STATUS] = Status(values[_STATUS])
    # Django's cursors leave JSON to the ORM's fields.
    values[_POLICIES] = _names(values[_POLICIES])
    values[_COUNTERS] = json.loads(values[_COUNTERS])
    values[_AVOIDED] = json.loads(values[_AVOIDED])
    return LockedSession._make(values)


@lru_cache(maxsize=1024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


_CLAIM_DUE = f"""
    SELECT d.session_id, s.root_id, statement_timestamp(), {_KEEP_PLANS}
    FROM sessions_app_retrydecision d
    JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE d.state = 'scheduled' AND d.due_at <= statement_timestamp()
    ORDER BY d.due_at, d.session_id LIMIT %s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""  # noqa: S608  # constants
# Looks at the projects that have held retries, not at the retries: those of a project that is
# switched off for a month cost nothing. Each step of the recursion is one probe of an index.
_CLAIM_RESUMABLE = """
    WITH RECURSIVE holding(project_id) AS (
        (SELECT project_id FROM sessions_app_session WHERE retry_state = 'held'
            ORDER BY project_id LIMIT 1)
        UNION ALL
        SELECT (SELECT project_id FROM sessions_app_session
            WHERE retry_state = 'held' AND project_id > h.project_id ORDER BY project_id LIMIT 1)
        FROM holding h WHERE h.project_id IS NOT NULL
    )
    SELECT s.id FROM holding h JOIN sessions_app_project p ON p.id = h.project_id
    JOIN LATERAL (
        SELECT id, root_id FROM sessions_app_session
        WHERE retry_state = 'held' AND project_id = p.id ORDER BY id LIMIT %(limit)s
    ) s ON true
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE NOT EXISTS (
        SELECT FROM sessions_app_retrysettings w WHERE w.mode <> 'on' AND (
            w.domain_id IS NULL AND w.project_id IS NULL
            OR w.domain_id = p.domain_id OR w.project_id = p.id))
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
"""


class DueRetry(NamedTuple):
    """A failed session whose root is locked, and the time by which its retry was due."""

    session_id: UUID
    root_id: UUID
    now: datetime


def claim_due(limit: int) -> list[DueRetry]:
    """Lock the roots of up to `limit` retries that are due; what has been so for longest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_DUE, [limit])
        return [DueRetry._make(row[:3]) for row in cursor.fetchall()]


def claim_resumable(limit: int) -> list[UUID]:
    """Lock the roots of up to `limit` held retries whose switches are all on."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_RESUMABLE, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


_CLAIM_ROOTS = """
    SELECT r.id FROM sessions_app_session r
    WHERE r.id = ANY(%s::uuid[]) AND r.parent_id IS NULL ORDER BY r.id FOR UPDATE SKIP LOCKED
"""
# Sees what the holders of the root locks committed before.
_STILL_ENDED = """
    SELECT root_id FROM sessions_app_session
    WHERE root_id = ANY(%s::uuid[]) AND finished_at < %s
        AND tip AND retry_state IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')
"""


def claim_ended(roots: Sequence[UUID], before: datetime) -> list[UUID]:
    """Lock the roots of chains that are to go; those that ended before a time and still are so."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_ROOTS, [array(roots)])
        cursor.execute(_STILL_ENDED, [array(row[0] for row in cursor.fetchall()), before])
        return [row[0] for row in cursor.fetchall()]


_CLAIM_ARCHIVED = """
    SELECT data->'archive'->>'chain' FROM sessions_app_sessionevent
    WHERE type = 'session.archived' AND attempt = 0 AND time < %s AND id <= %s
    ORDER BY time LIMIT %s FOR UPDATE SKIP LOCKED
"""


def claim_archived(before: datetime, up_to: int, limit: int) -> list[UUID]:
    """Lock the first chains that were archived before a time and by an event of at most that id.

    Their sessions: up to `limit`, unless one chain alone has more.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_ARCHIVED, [before, up_to, limit])
        sessions: list[UUID] = []
        for (chain,) in cursor.fetchall():
            ids = [UUID(each) for each in json.loads(chain)]
            if sessions and len(sessions) + len(ids) > limit:
                break
            sessions += ids
        return sessions


def lock_policy_name(name: str) -> None:
    """Let only this transaction make or bring back policies of a name, in any scope."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [AdvisoryLock.POLICY_NAME, name]
        )


def lock_token(token_id: int) -> bool:
    """Keep a token from being revoked until this transaction ends; whether it is there yet.

    Who revokes all that was made with it sees what is being made, too.
    """
    with connection.cursor() as cursor:
        # Writing its last use waits for nobody.
        cursor.execute("SELECT FROM sessions_app_apitoken WHERE id = %s FOR KEY SHARE", [token_id])
        return cursor.fetchone() is not None


# Archiving a policy waits for FOR SHARE, removing it for FOR KEY SHARE, too.
_POLICIES_NAMED = """
    SELECT w.project_id, p.name
    FROM unnest(%s::bigint[], %s::text[]) AS w(project_id, name)
    LEFT JOIN sessions_app_project j ON j.id = w.project_id
    JOIN sessions_app_retrypolicy p ON p.name = w.name AND p.archived_at IS NULL AND (
        p.project_id = j.id OR p.domain_id = j.domain_id
        OR p.project_id IS NULL AND p.domain_id IS NULL)
    ORDER BY p.id
"""


def policies_named(
    wanted: Collection[tuple[int | None, str]], *, attach: bool
) -> set[tuple[int | None, str]]:
    """Which names stand for a policy within reach of a project (None: of the cluster alone).

    The policies stay in the database until this transaction ends, and with `attach` they are not
    archived either: what names one for good must not be missed by whoever deletes it.
    """
    if not wanted:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            _POLICIES_NAMED + (" FOR SHARE OF p" if attach else " FOR KEY SHARE OF p"),
            columns(sorted(wanted, key=str)),
        )
        return set(cursor.fetchall())


class QueueNames(NamedTuple):
    """What a queue adds to the chains that are submitted to it."""

    retry_policies: list[str]
    default_policy: str
    """The cluster's: of chains for which nobody names one."""


_QUEUES_FOR_SUBMIT = """
    SELECT q.id, q.retry_policies::text, coalesce((
        SELECT default_policy FROM sessions_app_retrysettings
        WHERE domain_id IS NULL AND project_id IS NULL), '')
    FROM sessions_app_queue q WHERE q.id = ANY(%s::bigint[])
    ORDER BY q.id FOR KEY SHARE OF q
"""


def queues_for_submit(queue_ids: Collection[int]) -> dict[int, QueueNames]:
    """Keep queues from being deleted until this transaction ends; those that exist, by id."""
    with connection.cursor() as cursor:
        cursor.execute(_QUEUES_FOR_SUBMIT, [array(sorted(queue_ids))])
        return {row[0]: QueueNames(json.loads(row[1]), row[2]) for row in cursor.fetchall()}


_USAGE = f"""
    SELECT p.id, u.id, coalesce(d.name, o.name || '/' || p.name), u.name, u."limit", u.used
    FROM sessions_app_project p
    JOIN sessions_app_projectusage u ON u.project_id = p.id OR u.domain_id = p.domain_id
    JOIN sessions_app_domain o ON o.id = p.domain_id
    LEFT JOIN sessions_app_domain d ON d.id = u.domain_id
    WHERE (%(projects)s::bigint[] IS NULL OR p.id = ANY(%(projects)s::bigint[]))
        AND (%(waiting)s AND u.name = 'pending_sessions'
            OR %(live)s AND u.name <> 'pending_sessions')
        AND NOT {_NO_NEW_COUNTERS}
    ORDER BY u.id, p.id
"""  # noqa: S608  # as above


class Usage(NamedTuple):
    """A counter that counts for a project: the project's own, or its domain's."""

    project_id: int
    id: int
    scope: str
    name: str
    limit: Decimal | None
    used: Decimal


def usage_read(
    project_ids: Collection[int] | None, *, waiting: bool, live: bool, lock: bool = False
) -> list[Usage]:
    """The counters that hold in projects (None: in all), of what waits and of what is live.

    Where there are none, none will count until this transaction ends. With `lock` it has them.
    """
    projects = None if project_ids is None else array(sorted(set(project_ids)))
    with connection.cursor() as cursor:
        cursor.execute(
            _USAGE + ("FOR NO KEY UPDATE OF u" if lock else ""),
            {"projects": projects, "waiting": waiting, "live": live},
        )
        return [Usage._make(row) for row in cursor.fetchall()]


_USAGE_OF_SCOPE = """
    SELECT id, name, "limit", used FROM sessions_app_projectusage
    WHERE project_id = %s OR domain_id = %s ORDER BY id FOR NO KEY UPDATE
"""


class Counter(NamedTuple):
    """A counter of one scope."""

    id: int
    name: str
    limit: Decimal | None
    used: Decimal


def usage_lock_scope(*, project_id: int | None, domain_id: int | None) -> dict[str, Counter]:
    """Lock the counters of a project or of a domain, by name.

    Sessions that they count can be counted then: who has moved one holds them until the commit.
    """
    with connection.cursor() as cursor:
        cursor.execute(_USAGE_OF_SCOPE, [project_id, domain_id])
        return {row[1]: Counter._make(row) for row in cursor.fetchall()}


def usage_stop() -> None:
    """Let no transaction look for counters until this one has ended; those that have looked end
    first. Everybody waits for it, so that it has to be short.
    """
    with connection.cursor() as cursor:
        # Conflicts with the table lock of whoever locks rows, not with those who only read.
        cursor.execute("LOCK TABLE sessions_app_projectusage IN EXCLUSIVE MODE")
