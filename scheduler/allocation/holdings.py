"""The leases of an executor, and the room that they leave."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection

from base.podspec.resources import Amounts
from scheduler.allocation.waiting_lines import ONE, amounts_of
from scheduler.core.below import NOTHING_BELOW, Below, below_of
from scheduler.core.fit import Ask, Room
from scheduler.core.foreign_usage import Known, crowded, with_others
from scheduler.models import Executor
from scheduler.wire import LeaseCall
from sessions_app.core.quotas import SESSIONS
from sessions_app.db.bulk import array
from sessions_app.services.write.usage import taken_by

# Sessions whose nodes are known come first. The others get what is then left. The planned nodes
# count until the session's node is reported; of several pods, only one node is ever reported.
_HELD = """
    SELECT l.executor_id, s.queue_id, s.retry_count > 0,
        CASE WHEN s.node <> '' AND (c.cluster_size = 1 OR l.nodes IS NULL)
            THEN jsonb_build_array(s.node)::text ELSE coalesce(l.nodes::text, '') END,
        l.template, c.resources::text, c.cluster_size, count(*)
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE l.executor_id = ANY(%s::bigint[])
        AND s.fencing_token = l.fencing_token AND s.phase = 'live'
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ORDER BY 1, 4 DESC, 2, 3, 5, 6, 7
"""


def held_amounts(resources: str, pods: int, count: int) -> Amounts:
    """Return the amounts that `count` sessions of a specification hold together."""
    held = {name: value * pods * count for name, value in amounts_of(resources).items()}
    return {**held, SESSIONS: ONE * count}


def taken_amounts(resources: str, pods: int) -> Amounts:
    """Return what a session takes from the pool, from its queue's limits and from quotas."""
    return {**held_amounts(resources, pods, 1), **taken_by(resources, pods)}


class Held(NamedTuple):
    """Leases of one executor that are alike, counted together."""

    queue_id: int
    retry: bool
    known_nodes: str
    """The nodes as JSON text; "" if none is known."""
    template: str
    """The node template on whose nodes they run, or wait to; "" for none."""
    resources: str
    pods: int
    leases: int

    @property
    def nodes(self) -> list[str]:
        """Return the nodes of each of these leases, one a rank; empty if they are not known."""
        return json.loads(self.known_nodes) if self.known_nodes else []

    @property
    def ask(self) -> Ask:
        """Return what each of these leases asks for."""
        return Ask(amounts_of(self.resources), self.pods)

    @property
    def taken(self) -> Amounts:
        """Return the amounts that all of these leases hold together."""
        return held_amounts(self.resources, self.pods, self.leases)


def leases_held(*executor_ids: int) -> dict[int, list[Held]]:
    """Return the leases of each executor that count, grouped, by executor id."""
    held: dict[int, list[Held]] = {each: [] for each in executor_ids}
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [array(executor_ids)])
        for executor_id, *row in cursor.fetchall():
            held[executor_id].append(Held._make(row))
    return held


_EMPTY = ("name", "allocatable", "labels", "taints")
# Includes sessions that have ended: their executor still counts their runs.
_NAMED = """
    SELECT s.node, c.resources::text, c.cluster_size, count(*)
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[]) GROUP BY 1, 2, 3
"""


def reported_nodes(call: LeaseCall) -> list[dict[str, Any]] | None:
    """Return the nodes of a lease call as they are stored; None if the call names none."""
    if call.nodes is None:
        return None
    nodes = [node.model_dump() for node in call.nodes]
    if not crowded(nodes):
        return nodes
    with connection.cursor() as cursor:
        cursor.execute(_NAMED, [array(run.session_id for run in call.runs)])
        rows = cursor.fetchall()
    return with_others(
        nodes,
        [Known(node, Ask(amounts_of(text), pods * n).whole) for node, text, pods, n in rows],
    )


def below_at(executor: Executor) -> Below:
    """Return what pods get at an executor below what their sessions say of nodes."""
    return below_of(executor.pod_placing, tolerations=executor.extended_tolerations)


def nodes_digest(
    nodes: Sequence[Mapping[str, Any]],
    templates: Sequence[Mapping[str, Any]],
    below: Below = NOTHING_BELOW,
) -> str:
    """Return a digest of what nodes are when empty, of node templates, and of what pods get there,
    32 characters: it changes as they do."""
    empty: list[Any] = [[node.get(name) for name in _EMPTY] for node in nodes]
    empty.extend([*templates, below])
    return hashlib.blake2b(json.dumps(empty, sort_keys=True).encode(), digest_size=16).hexdigest()


def room_beside(executor: Executor, held: Sequence[Held]) -> Room:
    """Return the room on an executor's nodes beside foreign usage, refusals and the leases held.

    It includes what the executor's node templates can still bring. Nodes in quarantine have none,
    if they were read with the executor.
    """
    room = Room(executor.nodes, (), executor.node_templates)
    room.refuse(executor.refusals)
    for each in held:
        ask, nodes = each.ask, each.nodes
        for _ in range(each.leases):
            room.take(ask, nodes=nodes, template=each.template)
    room.close(executor.closed_nodes)
    return room
