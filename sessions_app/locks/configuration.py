"""Locks on configuration while records that refer to it are created."""

import json
from collections.abc import Collection
from typing import NamedTuple

from django.db import connection

from sessions_app.db.bulk import array, columns

_NARROWED_TO = """
    SELECT FROM sessions_app_project
    WHERE id = (SELECT project_id FROM sessions_app_apitoken WHERE id = %s) FOR KEY SHARE
"""


def lock_token(token_id: int) -> bool:
    """Keep a token from being revoked until this transaction ends. Return whether it still exists.

    Whoever revokes a token waits, and then sees what this transaction creates with it. The token's
    project is locked first, in the same order as when a project is deleted with its tokens.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NARROWED_TO, [token_id])
        # This lock mode does not block the update of the token's last use.
        cursor.execute("SELECT FROM sessions_app_apitoken WHERE id = %s FOR KEY SHARE", [token_id])
        return cursor.fetchone() is not None


# Archiving a policy waits for FOR SHARE; deleting it also waits for FOR KEY SHARE.
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
    """Return which names refer to a policy in reach of a project (None: of the cluster alone).

    The policies stay in the database until this transaction ends. With `attach` they are not
    archived either: whoever archives a policy must see all records that name it permanently.
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
    """The policy names that a queue adds to chains submitted to it."""

    retry_policies: list[str]
    default_policy: str
    """The cluster's default policy, for chains for which nobody names one."""


_QUEUES_FOR_SUBMIT = """
    SELECT q.id, q.retry_policies::text, coalesce((
        SELECT default_policy FROM sessions_app_retrysettings
        WHERE domain_id IS NULL AND project_id IS NULL), '')
    FROM sessions_app_queue q WHERE q.id = ANY(%s::bigint[])
    ORDER BY q.id FOR KEY SHARE OF q
"""


def queues_for_submit(queue_ids: Collection[int]) -> dict[int, QueueNames]:
    """Keep queues from being deleted in this transaction. Return those that exist, by id."""
    with connection.cursor() as cursor:
        cursor.execute(_QUEUES_FOR_SUBMIT, [array(sorted(queue_ids))])
        return {row[0]: QueueNames(json.loads(row[1]), row[2]) for row in cursor.fetchall()}
