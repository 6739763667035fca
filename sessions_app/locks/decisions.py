"""Decisions, each behind the root of its chain.

They have no lock of their own: whoever writes one holds the root's.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from pydantic_core import from_json

from retry.engine.decision import SWITCH
from sessions_app.db.bulk import array
from sessions_app.locks.chains import (
    KEEP_PLANS,
    SESSION_COLUMNS,
    LockedSession,
    locked_session,
    once,
)


class StoredDecision(NamedTuple):
    """The facts of a decision that dispatch, cancel and manual retry need."""

    session_id: UUID
    state: str
    paid_by: str
    used: int | None
    limit: int | None
    cause: str
    due_at: datetime | None
    avoid_node: str
    avoid_executor: str
    resources: dict[str, Any] | None
    paced: bool
    requested_by: str
    held_for: str
    changes: dict[str, Any] | None
    held_key: str

    @property
    def switched(self) -> bool:
        """Return whether a switch holds it."""
        return self.state == "held" and self.held_for == SWITCH


_COLUMNS = """
    d.session_id, d.state, d.paid_by, d.used, d."limit", d.cause, d.due_at, d.avoid_node,
    d.avoid_executor, d.resources::text, d.paced, d.requested_by, d.held_for, d.changes::text,
    d.held_key
"""
_READ = f"SELECT {_COLUMNS} FROM sessions_app_retrydecision d WHERE d.session_id = ANY(%s::uuid[])"
# The rows are locked, too, so that PostgreSQL reads again what others have changed since the
# statement began, and leaves out what is no longer due. None waits for them, since whoever changes
# them holds the root. The limit is hidden from the plan, as in `FEW_IDS`.
_CLAIM_DUE = """
    WITH l AS (
        SELECT {stored}, {columns} FROM sessions_app_retrydecision d
        JOIN sessions_app_session s ON s.id = d.session_id
        JOIN sessions_app_session r ON r.id = s.root_id
        WHERE d.state = 'scheduled' AND d.due_at <= statement_timestamp()
        ORDER BY d.due_at, d.session_id LIMIT (SELECT %s::int)
        FOR NO KEY UPDATE OF r SKIP LOCKED FOR NO KEY UPDATE OF s, d
    )
    SELECT {about}, statement_timestamp(), {plans}, l.* FROM l
"""
_LOCK = """
    WITH l AS (
        SELECT {stored}, {columns} FROM sessions_app_session s
        JOIN sessions_app_session r ON r.id = s.root_id
        JOIN sessions_app_retrydecision d ON d.session_id = s.id
        WHERE s.id = ANY(%s::uuid[]) AND s.root_id = ANY(%s::uuid[])
        ORDER BY s.id FOR NO KEY UPDATE OF s
    )
    SELECT {about}, l.* FROM l
"""


def read_decisions(session_ids: Sequence[UUID]) -> dict[UUID, StoredDecision]:
    """Return the decisions of sessions whose roots the caller has locked."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [array(session_ids)])
        return {row[0]: _stored(row) for row in cursor.fetchall()}


def lock_retries(
    roots: Iterable[UUID], session_ids: Iterable[UUID], about: str
) -> tuple[list[tuple[LockedSession, StoredDecision]], Any]:
    """Lock failed sessions of chains whose roots the caller has locked.

    Return those that exist, by id, with their decisions; and the value of `about`, which
    `lock_sessions_with` explains.
    """
    with connection.cursor() as cursor:
        cursor.execute(_statement(_LOCK, about), [array(session_ids), array(roots)])
        rows = cursor.fetchall()
    return _retries(rows, 1), from_json(rows[0][0]) if rows else None


class DueRetries(NamedTuple):
    """Retries that were due at `now`, locked, with the value of `about`."""

    retries: Sequence[tuple[LockedSession, StoredDecision]]
    now: datetime
    about: Any


def claim_due(limit: int, about: str) -> DueRetries | None:
    """Lock up to `limit` retries that are due, each with the root of its chain; None if none is.

    What has been due for longest comes first. `about` is as in `lock_sessions_with`. From here on
    the transaction keeps generic plans (`KEEP_PLANS`).
    """
    with connection.cursor() as cursor:
        cursor.execute(_statement(_CLAIM_DUE, about), [limit])
        rows = cursor.fetchall()
    return DueRetries(_retries(rows, 3), rows[0][1], from_json(rows[0][0])) if rows else None


def _retries(
    rows: Sequence[tuple[Any, ...]], start: int
) -> list[tuple[LockedSession, StoredDecision]]:
    """Return the sessions and decisions in the columns from `start` on."""
    end = start + len(StoredDecision._fields)
    return [(locked_session(row[end:]), _stored(row[start:end])) for row in rows]


@cache
def _statement(template: str, about: str) -> str:
    return template.format(
        stored=_COLUMNS, columns=SESSION_COLUMNS, about=once(about), plans=KEEP_PLANS
    )


_JSON = ("resources", "changes")


def _stored(row: tuple[Any, ...]) -> StoredDecision:
    # Django's cursors leave JSON to the ORM's fields.
    decision = StoredDecision._make(row)
    texts = {name: text for name in _JSON if (text := getattr(decision, name)) is not None}
    if not texts:
        return decision
    return decision._replace(**{name: json.loads(text) for name, text in texts.items()})
