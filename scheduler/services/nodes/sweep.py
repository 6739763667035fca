"""The sweep of nodes: their rows, their figures, and their suspicions, in this order."""

from typing import NamedTuple

from django.db import connection

from scheduler.locks import lock_nodes
from scheduler.services.nodes.counting import figures_forget, nodes_count
from scheduler.services.nodes.suspicions import nodes_judge, suspicions_end
from sessions_app.db.bulk import array
from sessions_app.db.steps import atomic_step

TASK_SECONDS = 10.0
"""Seconds for which one run goes on; the next one continues."""

# One statement, since a server on which nobody asks for this does only that.
_WORK = """
    SELECT EXISTS (SELECT FROM scheduler_executor WHERE avoid_suspects <> 'off'),
        EXISTS (SELECT FROM scheduler_node WHERE suspected_until <= clock_timestamp()),
        ARRAY(SELECT e.id FROM scheduler_executor e WHERE e.nodes_digest <> coalesce(
            (SELECT r.listed->>(e.id::text) FROM scheduler_nodereader r WHERE r.id = 1), '')),
        coalesce((SELECT to_judge FROM scheduler_nodereader WHERE id = 1), false)
"""
_LIST = """
    WITH listed AS MATERIALIZED (
        SELECT e.id AS executor_id, left(n->>'name', 253) AS name,
            e.name || '/' || left(n->>'name', 253) AS address
        FROM scheduler_executor e CROSS JOIN LATERAL jsonb_array_elements(e.nodes) AS n
        WHERE e.id = ANY(%(executors)s::bigint[]) AND n->>'name' <> ''),
    gone AS (
        UPDATE scheduler_node n SET present = false
        WHERE n.executor_id = ANY(%(executors)s::bigint[]) AND n.present AND NOT EXISTS (
            SELECT FROM listed l WHERE l.executor_id = n.executor_id AND l.name = n.name))
    INSERT INTO scheduler_node AS n (executor_id, name, address, present, reason, quarantined_by,
        quarantine_reason)
    SELECT DISTINCT executor_id, name, address, true, '', '', '' FROM listed
    ORDER BY 1, 2
    ON CONFLICT (executor_id, name) DO UPDATE SET present = true WHERE NOT n.present
"""
# Nodes of clusters that grow and shrink come and go. One that was suspect is remembered for a day.
_DROP = """
    WITH dropped AS (
        DELETE FROM scheduler_node n
        WHERE n.executor_id = ANY(%(executors)s::bigint[]) AND NOT n.present
            AND n.suspected_until IS NULL AND n.quarantined_at IS NULL
            AND coalesce(n.cleared_at < clock_timestamp() - interval '1 day', true)
            AND NOT EXISTS (SELECT FROM scheduler_nodeattempt a WHERE a.node_id = n.id
                AND a.ended_at >= clock_timestamp() - interval '1 day')
        RETURNING n.id)
    DELETE FROM scheduler_nodeattempt WHERE node_id IN (SELECT id FROM dropped)
"""
_LISTED = """
    INSERT INTO scheduler_nodereader (id, listed, to_judge)
    SELECT 1, jsonb_object_agg(id::text, nodes_digest), false FROM scheduler_executor
    WHERE id = ANY(%(executors)s::bigint[])
    ON CONFLICT (id) DO UPDATE SET listed = scheduler_nodereader.listed || excluded.listed
"""


class Swept(NamedTuple):
    """The result of one sweep."""

    counted: int
    """Number of attempts counted."""
    suspected: int
    cleared: int


def nodes_sweep(seconds: float = TASK_SECONDS) -> Swept:
    """Keep the rows, figures and suspicions of nodes.

    Figures are kept while an executor asks for it; once one does, they begin with what the log has
    of the last day.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WORK)
        asked, due, changed, to_judge = cursor.fetchone()
    if changed:
        nodes_list(changed)
    cleared = suspicions_end() if due else 0
    if not asked:
        return Swept(0, 0, cleared)
    found = nodes_count(seconds)
    # Figures of a log that is only half read convict wrongly.
    to_judge = to_judge or found.failures or cleared
    suspected = nodes_judge() if to_judge and not found.more else 0
    return Swept(found.ends, suspected, cleared)


def nodes_list(executors: list[int]) -> None:
    """Make the rows of executors' nodes those that the executors report.

    Nodes that are gone lose their rows when nothing is known of them any more.
    """
    with atomic_step("nodes"):
        lock_nodes()
        wanted = {"executors": array(sorted(executors))}
        with connection.cursor() as cursor:
            cursor.execute(_LIST, wanted)
            cursor.execute(_DROP, wanted)
            cursor.execute(_LISTED, wanted)


def nodes_rebuild() -> int:
    """Count the attempts of the last day anew, from the log. Return their number.

    Suspicions and quarantines stay; nodes are judged by the new figures.
    """
    figures_forget()
    counted, found = 0, nodes_count(TASK_SECONDS)
    counted += found.ends
    while found.more:
        found = nodes_count(TASK_SECONDS)
        counted += found.ends
    nodes_judge()
    return counted
