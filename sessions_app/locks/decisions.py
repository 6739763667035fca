"""Decisions, each behind the root of its chain."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import array


class StoredDecision(NamedTuple):
    """What dispatch, cancel and manual retry need of a decision."""

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


_LOCK = """
    SELECT session_id, state, paid_by, used, "limit", cause, due_at, avoid_node, avoid_executor,
        resources::text, paced, requested_by
    FROM sessions_app_retrydecision WHERE session_id = ANY(%s::uuid[])
    ORDER BY session_id FOR NO KEY UPDATE
"""


def lock_decisions(session_ids: Sequence[UUID]) -> dict[UUID, StoredDecision]:
    """Lock the decisions of sessions whose roots are locked."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [array(session_ids)])
        return {row[0]: _stored(row) for row in cursor.fetchall()}


_RESOURCES = StoredDecision._fields.index("resources")


def _stored(row: tuple[Any, ...]) -> StoredDecision:
    # Django's cursors leave JSON to the ORM's fields.
    text = row[_RESOURCES]
    decision = StoredDecision._make(row)
    return decision if text is None else decision._replace(resources=json.loads(text))
