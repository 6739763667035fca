"""The values of figures of failures that a filter by node means."""

from collections.abc import Sequence

from django.db import connection

from sessions_app.db.bulk import array

# Each value is found by itself in the index of the figures: how many rows it has does not count.
_NAMED = """
    WITH RECURSIVE nodes AS (
        SELECT p.id AS project_id, (SELECT min(h.value) FROM sessions_app_failurehour h
            WHERE h.project_id = p.id AND h.dimension = 'node') AS value
        FROM unnest(%(projects)s::bigint[]) AS p(id)
        UNION ALL
        SELECT n.project_id, (SELECT min(h.value) FROM sessions_app_failurehour h
            WHERE h.project_id = n.project_id AND h.dimension = 'node' AND h.value > n.value)
        FROM nodes n WHERE n.value IS NOT NULL)
    SELECT DISTINCT value FROM nodes
    WHERE right(value, length(%(name)s) + 1) = '/' || %(name)s
"""


def node_values(projects: Sequence[int], node: str) -> list[str]:
    """Return the values under which failures on a node were counted.

    `node` is an address, or a name: then the nodes of all executors with this name are meant, and
    those that were counted by their names alone. One statement, and none for an address.
    """
    if "/" in node:
        return [node]
    with connection.cursor() as cursor:
        cursor.execute(_NAMED, {"projects": array(projects), "name": node})
        return [node, *(value for (value,) in cursor.fetchall())]
