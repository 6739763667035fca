"""Locks on the priority classes that new sessions name."""

from collections.abc import Collection
from typing import NamedTuple

from django.db import connection

from sessions_app.db.bulk import columns


class Named(NamedTuple):
    """A priority class, as the owner of a new session names it in a project."""

    project_id: int
    owner_id: int
    name: str


# The key of a class is held until the session is there, so that nobody deletes it meanwhile.
_RANKS = """
    SELECT v.project_id, v.owner_id, c.name, c.value
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS v(project_id, owner_id, name)
    JOIN sessions_app_priorityclass c ON c.name = v.name
    JOIN sessions_app_project p ON p.id = v.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    JOIN auth_user u ON u.id = v.owner_id
    WHERE c.domains ? d.name OR c.projects ? (d.name || '/' || p.name)
        OR (u.is_superuser AND u.is_active)
    ORDER BY c.id FOR KEY SHARE OF c
"""


def ranks_allowed(named: Collection[Named]) -> dict[Named, int]:
    """Lock the classes. Return the values of those that exist and may be named so."""
    if not named:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_RANKS, columns(list(named)))
        return {Named(*row[:3]): row[3] for row in cursor.fetchall()}
