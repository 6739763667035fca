"""Locks on sessions, each behind the root of its chain."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from pydantic_core import from_json

from sessions_app.core.states import Status
from sessions_app.db.bulk import FEW_IDS, array
from sessions_app.locks.usage import NO_NEW_COUNTERS


class LockedSession(NamedTuple):
    """The facts of a locked session that the services need. JSON columns come as text.

    A field is the column of that name, unless `_ELSEWHERE` says otherwise.
    """

    id: UUID
    root_id: UUID
    parent_id: UUID | None
    project_id: int
    queue_id: int
    job_set: str
    session_type: str
    priority: int
    """Together with its class: `core/priorities.py`."""
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
    placement_refusals: int | None
    avoid_executors: list[str]
    terminating_at: datetime | None
    preempt_requested_at: datetime | None
    gave_way_to: UUID | None
    start_failure: str | None
    advanced: bool | None
    """True if the ended attempt made progress; None if it told nothing."""
    best_before: float | None
    """The best step of the attempts before it; None if none told of one."""
    retry_marks: dict[str, int] | None
    failure_signature: str
    limited: bool
    """Whether quotas count the session. If not, none will until this transaction ends."""

    @property
    def quiet(self) -> bool:
        """Return whether its policy hides the events about what follows its failures."""
        return '"emit_retry_events": false' in self.retry_policy


_ELSEWHERE = {
    "advanced": "(s.progress -> 'advanced')::boolean",
    "best_before": "(s.chain_progress ->> 'best')::float8",
    "cancel_requested_at": "r.cancel_requested_at",
    "limited": f"""
        EXISTS (SELECT FROM sessions_app_projectusage u WHERE u.project_id = s.project_id)
        OR EXISTS (SELECT FROM sessions_app_projectusage u
            JOIN sessions_app_project p ON p.domain_id = u.domain_id WHERE p.id = s.project_id)
        OR {NO_NEW_COUNTERS}
    """,
}
SESSION_COLUMNS = ", ".join(_ELSEWHERE.get(name, f"s.{name}") for name in LockedSession._fields)
"""Of a session `s` whose root is `r`, for `locked_session`."""

# A SELECT with a side effect, until the transaction ends. Once the sessions are known, it finds all
# its rows by their ids: nothing is won by planning its statements anew for each batch, which for
# one session takes PostgreSQL as long as all the rest. A plan that is kept has to be right when its
# tables have grown, so none reads a whole table. As a column it costs no statement of its own.
KEEP_PLANS = """(SELECT set_config('plan_cache_mode', 'force_generic_plan', true)
    || set_config('enable_seqscan', 'off', true))"""
_LOCK_ROOTS = f"""
    SELECT r.id, {KEEP_PLANS} FROM sessions_app_session r
    WHERE r.id IN (SELECT root_id FROM sessions_app_session WHERE id = ANY(%s::uuid[]))
    ORDER BY r.id FOR NO KEY UPDATE
"""
# Roots and sessions in one statement: of each chain it locks the root first, and whoever changes a
# session holds its root. A row that changed while we waited for it is read again, as it is now. The
# clock is read above the locks, and also if there is no session.
_LOCK_SESSIONS = """
    WITH l AS (
        SELECT {columns} FROM sessions_app_session s
        JOIN sessions_app_session r ON r.id = s.root_id
        WHERE s.id = ANY({ids})
        ORDER BY r.id, s.id FOR NO KEY UPDATE OF r{wait} FOR NO KEY UPDATE OF s
    )
    SELECT {about}, {plans}, clock_timestamp(), l.* FROM (SELECT) AS always LEFT JOIN l ON true
"""
_LOCK_CHAINS = f"""
    SELECT {SESSION_COLUMNS}
    FROM sessions_app_session s JOIN sessions_app_session r ON r.id = s.root_id
    WHERE s.root_id = ANY(%s::uuid[]) AND (s.tip OR s.id = s.root_id)
    ORDER BY s.id FOR NO KEY UPDATE OF s
"""


def lock_sessions(ids: Sequence[UUID], *, skip_locked: bool = False) -> list[LockedSession]:
    """Lock the roots of these sessions, then the sessions. Return those that exist, ordered by id.

    With `skip_locked`, sessions whose chain another transaction holds are left out. From here on
    the transaction keeps generic plans (`KEEP_PLANS`).
    """
    return lock_sessions_now(ids, skip_locked=skip_locked)[0]


def lock_sessions_now(
    ids: Sequence[UUID], *, skip_locked: bool = False
) -> tuple[list[LockedSession], datetime]:
    """As `lock_sessions`, with the clock of the database once all of them are locked."""
    sessions, now, _ = lock_sessions_with(ids, None, skip_locked=skip_locked)
    return sessions, now


def lock_sessions_with(
    ids: Sequence[UUID], about: str | None, *, skip_locked: bool = False
) -> tuple[list[LockedSession], datetime, Any]:
    """As `lock_sessions_now`, with one JSON value that the same statement reads.

    `about` is its SQL, which finds the sessions in a table `l`. It sees what was committed when the
    statement began, before it waited for locks.
    """
    with connection.cursor() as cursor:
        cursor.execute(_lock_sessions(about, skip_locked), [array(ids)])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    # Without a session there is one row, which has none.
    found = [locked_session(row[_FIRST:]) for row in rows if row[_FIRST] is not None]
    value = None if about is None else from_json(rows[0][_ABOUT])
    return sorted(found, key=attrgetter("id.int")), rows[-1][_CLOCK], value


def once(about: str) -> str:
    """Return the SQL of a column that has a JSON value, as its text, in the first row alone."""
    return f"CASE WHEN row_number() OVER () = 1 THEN ({about})::text END"


_ABOUT, _, _CLOCK, _FIRST = range(4)
"""Columns of `_LOCK_SESSIONS`."""


@cache
def _lock_sessions(about: str | None, skip_locked: bool) -> str:
    return _LOCK_SESSIONS.format(
        columns=SESSION_COLUMNS,
        ids=FEW_IDS,
        wait=" SKIP LOCKED" if skip_locked else "",
        about=once(about) if about else "NULL",
        plans=KEEP_PLANS,
    )


class LockedChain(NamedTuple):
    """The first and the newest attempt of a chain; in a chain of one attempt they are the same."""

    root: LockedSession
    tip: LockedSession


def lock_chains(root_ids: Sequence[UUID]) -> dict[UUID, LockedChain]:
    """Lock the roots and the newest attempts of chains, by root id; those that exist.

    From here on the transaction keeps generic plans (`KEEP_PLANS`).
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_ROOTS, [array(root_ids)])
        cursor.execute(_LOCK_CHAINS, [array(root_ids)])
        rows = [locked_session(row) for row in cursor.fetchall()]
    tips = {row.root_id: row for row in rows if row.tip}
    return {row.id: LockedChain(row, tips[row.id]) for row in rows if row.id == row.root_id}


def locked_session(row: Sequence[Any]) -> LockedSession:
    """Return the session in a row of `SESSION_COLUMNS`."""
    values = list(row)
    for position, read in _READ:
        values[position] = read(values[position])
    return LockedSession._make(values)


@lru_cache(maxsize=1024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(from_json(text))


def _marks(text: str | None) -> dict[str, int] | None:
    return None if text is None else from_json(text)


_READ: list[tuple[int, Callable[[Any], Any]]] = [
    (LockedSession._fields.index("status"), Status),
    # Django's cursors leave JSON to the ORM's fields.
    (LockedSession._fields.index("retry_policies"), _names),
    (LockedSession._fields.index("retry_counters"), from_json),
    (LockedSession._fields.index("avoid_executors"), from_json),
    (LockedSession._fields.index("retry_marks"), _marks),
]
