"""Suspicions of nodes: made by the figures of nodes, and ended when their time is over."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from retry.suspects import Group, Verdict, judge, lasting, most_out, worst
from scheduler.locks import lock_nodes
from scheduler.models import NodeReader
from scheduler.services.nodes.counting import OLDEST
from scheduler.services.nodes.telling import suspicions_tell
from sessions_app import wakeups
from sessions_app.db.bulk import columns
from sessions_app.db.steps import atomic_step
from sessions_app.locks import database_now

# Only nodes of executors that ask for it are judged, and only those with enough failures; they are
# compared with the same work on all nodes of all executors.
_GROUPS = """
    WITH recent AS MATERIALIZED (
        SELECT a.node_id, a.work, a.chain, a.cause <> '' AS failed
        FROM scheduler_nodeattempt a JOIN scheduler_node n ON n.id = a.node_id
        WHERE a.ended_at >= %(since)s AND (n.counted_from IS NULL OR a.ended_at > n.counted_from)),
    judged AS MATERIALIZED (
        SELECT r.node_id FROM recent r JOIN scheduler_node n ON n.id = r.node_id
        JOIN scheduler_executor x ON x.id = n.executor_id
        WHERE r.failed AND x.avoid_suspects <> 'off' AND n.suspected_until IS NULL
            AND n.quarantined_at IS NULL
        GROUP BY r.node_id HAVING count(*) >= 5),
    cells AS MATERIALIZED (
        SELECT node_id, work, count(*) AS attempts, count(*) FILTER (WHERE failed) AS failures,
            count(DISTINCT chain) FILTER (WHERE failed) AS chains
        FROM recent
        WHERE work IN (SELECT work FROM recent WHERE node_id IN (SELECT node_id FROM judged))
        GROUP BY node_id, work),
    totals AS (
        SELECT work, sum(attempts) AS attempts, sum(failures) AS failures FROM cells GROUP BY work)
    SELECT c.node_id, c.attempts, c.failures, c.chains, (t.attempts - c.attempts)::bigint,
        (t.failures - c.failures)::bigint, (SELECT count(DISTINCT node_id) FROM recent)
    FROM cells c JOIN judged j ON j.node_id = c.node_id JOIN totals t ON t.work = c.work
    ORDER BY c.node_id
"""
_EXECUTORS = """
    SELECT n.id, n.address, n.executor_id, n.suspected_at, n.cleared_at,
        coalesce(nullif(count(*) FILTER (WHERE o.present), 0), count(*)),
        count(*) FILTER (WHERE o.suspected_until IS NOT NULL OR o.quarantined_at IS NOT NULL)
    FROM scheduler_node n JOIN scheduler_node o ON o.executor_id = n.executor_id
    WHERE n.id = ANY(%s::bigint[]) GROUP BY n.id
"""
_SUSPECT = """
    UPDATE scheduler_node n SET suspected_at = %s, suspected_until = v.until, reason = v.reason,
        ratio = v.ratio
    FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::float8[])
        AS v(id, until, reason, ratio)
    WHERE n.id = v.id
"""
_CLEAR_DUE = """
    UPDATE scheduler_node SET suspected_until = NULL, cleared_at = suspected_until,
        counted_from = %(now)s
    WHERE suspected_until <= %(now)s RETURNING id
"""


class _Known(NamedTuple):
    """A node that is judged, and its executor's."""

    address: str
    executor_id: int
    suspected_at: datetime | None
    cleared_at: datetime | None
    nodes: int
    out: int


def nodes_judge() -> int:
    """Suspect the nodes that fail too often. Return their number."""
    with atomic_step("nodes") as writes:
        lock_nodes()
        now = database_now()
        NodeReader.objects.filter(pk=1).update(to_judge=False)
        groups, nodes = _groups(now)
        found = {
            node: verdict
            for node, each in groups.items()
            if (verdict := judge(each, nodes)) is not None
        }
        chosen = _chosen(found) if found else []
        if chosen:
            _suspect(chosen, now)
            suspicions_tell(writes, [node for node, *_ in chosen], began=True, now=now)
    return len(chosen)


def suspicions_end() -> int:
    """End the suspicions whose time is over. Return their number.

    What the nodes did until now counts no longer.
    """
    with atomic_step("nodes") as writes:
        lock_nodes()
        now = database_now()
        with connection.cursor() as cursor:
            cursor.execute(_CLEAR_DUE, {"now": now})
            ended = [row[0] for row in cursor.fetchall()]
        if ended:
            suspicions_tell(writes, ended, began=False, now=now)
            # There is room now for others that are as bad.
            NodeReader.objects.filter(pk=1).update(to_judge=True)
            wakeups.work_after_commit()
    return len(ended)


def _groups(now: datetime) -> tuple[Mapping[int, Sequence[Group]], int]:
    """Return what is compared of each node with enough failures, and the number of all nodes."""
    groups: dict[int, list[Group]] = defaultdict(list)
    nodes = 0
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, {"since": now - OLDEST})
        for node, *counts, nodes in cursor.fetchall():  # noqa: B007  # the same in each row
            groups[node].append(Group(*counts))
    return groups, nodes


def _chosen(found: Mapping[int, Verdict]) -> list[tuple[int, _Known, Verdict]]:
    """Return the nodes to suspect: of each executor the worst, as many as may be out."""
    with connection.cursor() as cursor:
        cursor.execute(_EXECUTORS, [list(found)])
        known = {row[0]: _Known._make(row[1:]) for row in cursor.fetchall()}
    by_address = {each.address: node for node, each in known.items()}
    chosen = []
    for executor in sorted({each.executor_id for each in known.values()}):
        of = {node: each for node, each in known.items() if each.executor_id == executor}
        any_of = next(iter(of.values()))
        verdicts = [(each.address, found[node]) for node, each in of.items()]
        for address, verdict in worst(verdicts, most_out(any_of.nodes) - any_of.out):
            node = by_address[address]
            chosen.append((node, known[node], verdict))
    return chosen


def _suspect(chosen: Iterable[tuple[int, _Known, Verdict]], now: datetime) -> None:
    rows = []
    for node, known, verdict in chosen:
        lasted = None
        if known.suspected_at is not None and known.cleared_at is not None:
            lasted = known.cleared_at - known.suspected_at
        until = now + lasting(lasted, known.cleared_at, now)
        rows.append((node, until, verdict.reason, verdict.ratio))
    with connection.cursor() as cursor:
        cursor.execute(_SUSPECT, [now, *columns(rows)])
