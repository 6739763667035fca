"""Locks on the counters of quotas."""

from collections.abc import Collection
from decimal import Decimal
from typing import NamedTuple

from django.db import connection

from sessions_app.db.bulk import array

# Finds no row, but takes the table lock that every change of a counter takes: no counter is created
# (`usage_stop`) until the transaction that looked for some has ended.
NO_NEW_COUNTERS = "EXISTS (SELECT FROM sessions_app_projectusage WHERE false FOR KEY SHARE)"
_USAGE = f"""
    SELECT p.id, u.id, coalesce(d.name, o.name || '/' || p.name), u.name, u."limit", u.used
    FROM sessions_app_project p
    JOIN sessions_app_projectusage u ON u.project_id = p.id OR u.domain_id = p.domain_id
    JOIN sessions_app_domain o ON o.id = p.domain_id
    LEFT JOIN sessions_app_domain d ON d.id = u.domain_id
    WHERE (%(projects)s::bigint[] IS NULL OR p.id = ANY(%(projects)s::bigint[]))
        AND (%(waiting)s AND u.name = 'pending_sessions'
            OR %(live)s AND u.name <> 'pending_sessions')
        AND NOT {NO_NEW_COUNTERS}
    ORDER BY u.id, p.id
"""


class Usage(NamedTuple):
    """A counter that applies to a project: the project's own, or its domain's."""

    project_id: int
    id: int
    scope: str
    name: str
    limit: Decimal | None
    used: Decimal


def usage_read(
    project_ids: Collection[int] | None, *, waiting: bool, live: bool, lock: bool = False
) -> list[Usage]:
    """Return the counters of projects (None: of all), for waiting and for live sessions.

    Where there are none, none will exist until this transaction ends. `lock` locks the counters.
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
    """Lock the counters of a project or of a domain. Return them by name.

    The sessions that they count can then be counted safely: every change holds its counters until
    its commit.
    """
    with connection.cursor() as cursor:
        cursor.execute(_USAGE_OF_SCOPE, [project_id, domain_id])
        return {row[1]: Counter._make(row) for row in cursor.fetchall()}


def usage_stop() -> None:
    """Keep other transactions from reading counters until this one ends; wait for those that have.

    Everybody waits for this transaction, so it has to be short.
    """
    with connection.cursor() as cursor:
        # Conflicts with the table lock of those that lock rows, not with plain reads.
        cursor.execute("LOCK TABLE sessions_app_projectusage IN EXCLUSIVE MODE")
