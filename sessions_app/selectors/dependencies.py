"""Reads of dependencies: what a chain waits for, and the graph around it."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import array

MOST_NAMED = 3
MOST_NODES = 1_000
"""Most chains of a graph in each direction."""

_OPEN = """
    SELECT count(*) OVER (),
        (SELECT count(*) FROM sessions_app_dependency a WHERE a.root_id = d.root_id),
        d.creation_id, t.id, t.status, t.name
    FROM sessions_app_dependency d
    LEFT JOIN sessions_app_session t ON t.root_id = d.on_root AND t.tip
    WHERE d.root_id = %s AND d.outcome = '' ORDER BY d.place LIMIT %s
"""


def waits_for(root_id: UUID) -> str:
    """Return what a chain waits for, for people: "waits for 2 of 5: prepare (RUNNING), ..."."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, [root_id, MOST_NAMED])
        rows = cursor.fetchall()
    if not rows:
        return "what it waited for has ended: it begins at once"
    left, of_all = rows[0][:2]
    names = [
        f"{_named(creation_id, tip_id, name)} ({status or 'archived'})"
        for _, _, creation_id, tip_id, status, name in rows
    ]
    more = ", ..." if left > len(names) else ""
    return f"waits for {left} of {of_all}: {', '.join(names)}{more}"


def _named(creation_id: str, tip_id: UUID | None, name: str | None) -> str:
    """Return the name that its owner gave it, or else its id."""
    if name:
        return f"{name} {tip_id}"
    return creation_id


class Node(NamedTuple):
    """A chain of a graph, by its first and its newest attempt; what is in the log only has no
    status and is its own newest attempt."""

    session_id: UUID
    tip_session_id: UUID
    creation_id: str
    name: str
    status: str | None
    retry_state: str | None
    retry_cause: str | None


class Edge(NamedTuple):
    """`session_id` waits for `depends_on`; without an outcome, it has not seen its end."""

    session_id: UUID
    depends_on: UUID
    when: str
    outcome: str | None
    met: bool | None


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """All chains that a chain waits for, or that wait for it, also through others."""

    session_id: UUID
    nodes: list[Node]
    edges: list[Edge]
    truncated: bool


# The recursion stops when the limit is reached: PostgreSQL reads no more of it than it is asked.
_NODES = """
    WITH RECURSIVE above(root) AS (
        SELECT %(root)s::uuid
        UNION SELECT d.on_root FROM above a JOIN sessions_app_dependency d ON d.root_id = a.root
    ), below(root) AS (
        SELECT %(root)s::uuid
        UNION SELECT d.root_id FROM below b JOIN sessions_app_dependency d ON d.on_root = b.root
    )
    (SELECT root FROM above LIMIT %(most)s) UNION ALL (SELECT root FROM below LIMIT %(most)s)
"""
_SHOWN = """
    SELECT r.id, t.id, r.creation_id, r.name, t.status, t.retry_state, nullif(t.retry_cause, '')
    FROM sessions_app_session r JOIN sessions_app_session t ON t.root_id = r.id AND t.tip
    WHERE r.id = ANY(%s::uuid[]) ORDER BY r.id
"""
_EDGES = """
    SELECT d.root_id, d.on_root, d.wanted, nullif(d.outcome, ''), d.met, d.creation_id,
        coalesce(d.tip_id, d.on_root), d.status
    FROM sessions_app_dependency d
    WHERE d.root_id = ANY(%s::uuid[]) AND d.on_root = ANY(%s::uuid[]) ORDER BY d.root_id, d.place
"""


def dependency_graph(root_id: UUID) -> DependencyGraph:
    """Return the graph around a chain, in three statements; the caller may see its project."""
    with connection.cursor() as cursor:
        cursor.execute(_NODES, {"root": root_id, "most": MOST_NODES + 1})
        found = [row[0] for row in cursor.fetchall()]
        # Each half begins with the chain itself.
        second = found.index(root_id, 1)
        truncated = max(second, len(found) - second) > MOST_NODES
        roots = array(dict.fromkeys([*found[:MOST_NODES], *found[second:][:MOST_NODES]]))
        cursor.execute(_SHOWN, [roots])
        nodes = {row[0]: Node(*row) for row in cursor.fetchall()}
        cursor.execute(_EDGES, [roots, roots])
        rows = cursor.fetchall()
    for _, on_root, *_, creation_id, tip_id, status in rows:
        if on_root not in nodes:
            nodes[on_root] = Node(on_root, tip_id, creation_id, "", status, None, None)
    return DependencyGraph(
        root_id,
        sorted(nodes.values(), key=lambda node: node.session_id),
        [Edge(*row[:5]) for row in rows],
        truncated,
    )
