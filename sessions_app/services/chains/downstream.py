"""Downstream: a retry by hand also retries what could not begin because of the failure.

The retried dependants wait for their dependencies again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from sessions_app import wakeups
from sessions_app.core.errors import DomainError, TooLarge
from sessions_app.core.retry_changes import Changes
from sessions_app.db.bulk import array
from sessions_app.locks import lock_chains
from sessions_app.services.chains.manual_retry import session_retry, sessions_retry

MOST = 1_000
"""Most chains that one retry takes along."""
_FAILED = "t.tip AND t.resting = 'cancelled' AND t.retry_cause = 'dependency_failed'"
_DOWN = f"""
    WITH RECURSIVE down(root) AS (
        SELECT d.root_id FROM sessions_app_dependency d
        JOIN sessions_app_session t ON t.root_id = d.root_id AND {_FAILED}
        WHERE d.on_root = %s AND NOT d.met
        UNION
        SELECT d.root_id FROM down w
        JOIN sessions_app_dependency d ON d.on_root = w.root AND NOT d.met
        JOIN sessions_app_session t ON t.root_id = d.root_id AND {_FAILED}
    )
    SELECT t.id, w.root FROM down w
    JOIN sessions_app_session t ON t.root_id = w.root AND t.tip LIMIT %s
"""
_REOPEN = """
    UPDATE sessions_app_dependency SET outcome = '', met = NULL, tip_id = NULL, status = NULL,
        exit_code = NULL
    WHERE root_id = ANY(%s::uuid[]) AND NOT met RETURNING on_root
"""


@dataclass(frozen=True, slots=True)
class Retried:
    """The new attempts of a session and of those downstream; None and the failed ones if dry."""

    child_id: UUID | None
    downstream: list[UUID]


def downstream_of(root_id: UUID) -> dict[UUID, UUID]:
    """Return the sessions that ended as `dependency_failed` because of a chain, with their roots.

    Also through others, in one statement. Raises `TooLarge` if there are more than `MOST`.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DOWN, [root_id, MOST + 1])
        found: dict[UUID, UUID] = dict(cursor.fetchall())
    if len(found) > MOST:
        raise TooLarge(
            f"more than {MOST:,} sessions wait downstream: retry those further down first, or "
            "retry without `downstream`"
        )
    return found


def session_retry_downstream(
    session_id: UUID, root_id: UUID, down: Mapping[UUID, UUID], *, by: str, changes: Changes
) -> Retried:
    """Retry a session as `session_retry` does, and those `down` of it, in one transaction.

    The `changes` are those of the first one. Of the others, those that somebody else has retried
    meanwhile are left as they are.
    """
    with transaction.atomic():
        # All of them in order, before either call locks its own.
        lock_chains([root_id, *down.values()])
        child_id = session_retry(session_id, root_id, by=by, changes=changes)
        outcomes = sessions_retry(down, by=by, blocked=True) if down else {}
        made = {key: each for key, each in outcomes.items() if not isinstance(each, DomainError)}
        _reopen([down[key] for key in made])
    return Retried(child_id, list(made.values()))


def _reopen(root_ids: Collection[UUID]) -> None:
    """Let chains wait again for what was not met."""
    with connection.cursor() as cursor:
        cursor.execute(_REOPEN, [array(root_ids)])
        awaited = {row[0] for row in cursor.fetchall()}
    # Some of these may have ended otherwise, and not be retried.
    wakeups.awaited_after_commit()
    wakeups.ended_after_commit(list(awaited))
