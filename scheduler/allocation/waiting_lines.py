"""The lines of waiting sessions; the cost of reading them does not depend on how many wait."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from base.podspec.pod_defaults import placing_of
from base.podspec.resources import Amounts, Unparsed, requested, spellings
from scheduler.core.below import Below
from scheduler.core.fairshare import Order, WaitingLine
from scheduler.core.fit import Ask
from scheduler.core.node_rules import ANY_NODE, NodeRules, node_rules
from sessions_app.db.bulk import array, columns
from sessions_app.services.write.usage import taken_by

MAX_LINES = 8_000
"""Maximum number of lines of all queues together that one round reads."""
LINES_OF_A_QUEUE = (4, 200)
"""Minimum and maximum number of lines that one round reads of each queue."""
MOST_HEADS = 20_000
"""Maximum number of heads read at first over all lines; at least two of each line are read."""
_KNOWN_WISHES = 20_000
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class BusyQueue(NamedTuple):
    """A queue in which sessions wait, with the scheduling keys of its lines."""

    id: int
    project_id: int
    factor: float
    resource_limits: dict[str, Any]
    keys: list[int]
    placing: str = ""
    """What the pod defaults of its project say of nodes, as JSON text; "" for nothing."""


class Wish(NamedTuple):
    """The requests of a line's sessions: what they ask for, and what they avoid.

    `node_of` is the executor that has the avoided node, since clusters may use the same names; ""
    if it is not known.
    """

    ask: Ask
    node: str
    node_of: str
    avoid_executors: frozenset[str]
    retry: bool
    counted: Mapping[str, Decimal]
    """Amounts that one session takes from quotas."""
    spellings: Unparsed
    """The amounts for each pod as its submission spells them."""
    executor_labels: Mapping[str, str] | None = None
    """The labels that its executor must have, if a rule says so."""
    placing: str = ""
    """What its pod specification says of nodes, as JSON text; "" for nothing."""

    def ask_on(self, below: Below) -> Ask:
        """Return what it asks for where pods get more than it says."""
        return below.ask(self.ask, self.placing)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether an executor with these labels may run it."""
        return self.executor_labels is None or self.executor_labels.items() <= labels.items()

    def node_avoided_on(self, executor: str) -> str:
        """Return the node of this executor that is avoided; "" for none."""
        return self.node if self.node_of in {"", executor} else ""

    @property
    def taken(self) -> Amounts:
        """Return what one session takes from the pool, from its queue's limits and from quotas."""
        return {**self.ask.whole, **self.counted}


ONE = Decimal(1)
RELEASED = """
    EXISTS (SELECT FROM sessions_app_sessionevent e WHERE e.session_id = v.id
        AND e.type = 'session.released' AND e.time > %(since)s)
"""
"""Whether a session `v` waited for others until then: their time is not its own."""
MICROSECONDS = "(extract(epoch FROM s.root_submitted_at) * 1000000)::bigint"

# Each step of these recursions is one probe of the index of lines.
_QUEUES = """
    WITH RECURSIVE busy(queue_id) AS (
        (SELECT queue_id FROM sessions_app_session WHERE phase = 'waiting'
            ORDER BY queue_id LIMIT 1)
        UNION ALL
        SELECT (SELECT queue_id FROM sessions_app_session
            WHERE phase = 'waiting' AND queue_id > b.queue_id ORDER BY queue_id LIMIT 1)
        FROM busy b WHERE b.queue_id IS NOT NULL
    )
    SELECT q.id, q.project_id, q.priority_factor, q.resource_limits::text,
        coalesce(d.pod_defaults::text, '')
    FROM busy b JOIN sessions_app_queue q ON q.id = b.queue_id
    LEFT JOIN sessions_app_retrysettings d ON d.project_id = q.project_id
    WHERE NOT q.cordoned
        AND (%(projects)s::bigint[] IS NULL OR q.project_id = ANY(%(projects)s::bigint[]))
        AND q.project_id <> ALL(%(without)s::bigint[])
    ORDER BY q.id
"""
_KEYS = """
    SELECT q.id, k.key
    FROM unnest(%(queues)s::bigint[]) AS q(id)
    CROSS JOIN LATERAL (
        WITH RECURSIVE line(key) AS (
            (SELECT scheduling_key FROM sessions_app_session
                WHERE phase = 'waiting' AND queue_id = q.id AND scheduling_key >= %(first)s::bigint
                ORDER BY scheduling_key LIMIT 1)
            UNION ALL
            SELECT (SELECT scheduling_key FROM sessions_app_session
                WHERE phase = 'waiting' AND queue_id = q.id AND scheduling_key > line.key
                ORDER BY scheduling_key LIMIT 1)
            FROM line WHERE line.key IS NOT NULL
        )
        SELECT key FROM line WHERE key IS NOT NULL LIMIT %(most)s
    ) k
"""


def busy_queues(projects: list[int] | None, *, without: Sequence[int] = ()) -> list[BusyQueue]:
    """Return the open queues with waiting sessions, of some projects or of all but those `without`.

    If a queue has more lines than a round can read, return those of a random range of keys, so that
    each line has its turn.
    """
    with connection.cursor() as cursor:
        cursor.execute(_QUEUES, {"projects": projects, "without": list(without)})
        found = {
            row[0]: BusyQueue(row[0], row[1], row[2], _limits(row[3]), [], _placing(row[4]))
            for row in cursor.fetchall()
        }
    if not found:
        return []
    least, most = LINES_OF_A_QUEUE
    share = min(max(MAX_LINES // len(found), least), most)
    _read_keys(found, found, _LOWEST, share)
    crowded = [queue.id for queue in found.values() if len(queue.keys) == share]
    if crowded:
        first = random.randint(_LOWEST, _HIGHEST)  # noqa: S311  # to have all their turn
        _read_keys(found, crowded, first, share)
    return [queue for queue in found.values() if queue.keys]


def _read_keys(found: dict[int, BusyQueue], queues: Iterable[int], first: int, most: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_KEYS, {"queues": array(queues), "first": first, "most": most})
        for queue_id, key in cursor.fetchall():
            if key not in found[queue_id].keys:
                found[queue_id].keys.append(key)


@lru_cache(maxsize=4096)
def _limits(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


@lru_cache(maxsize=1024)
def _placing(pod_defaults: str) -> str:
    return placing_text(json.loads(pod_defaults)) if pod_defaults else ""


_ASKED = """c.resources::text, c.cluster_size, c.pod_spec::text, s.avoid_node,
        coalesce(f.executor, ''), s.avoid_executors::text, s.retry_count > 0,
        c.executor_labels::text"""
# Reads any one session of each line: all sessions of a line are alike in these columns.
_WISHES = f"""
    SELECT w.key, {_ASKED}
    FROM unnest(%s::bigint[], %s::bigint[]) AS w(queue_id, key)
    CROSS JOIN LATERAL (
        SELECT spec_id, parent_id, avoid_node, avoid_executors, retry_count
        FROM sessions_app_session
        WHERE phase = 'waiting' AND queue_id = w.queue_id AND scheduling_key = w.key
        ORDER BY priority DESC, root_submitted_at, root_id LIMIT 1
    ) s
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    LEFT JOIN sessions_app_session f ON f.id = s.parent_id AND s.avoid_node <> ''
"""
_known: dict[int, Wish] = {}
"""Wishes by scheduling key. They never expire: the key determines all of these values."""


def wishes_of(queues: Iterable[BusyQueue]) -> dict[int, Wish]:
    """Return what the lines ask for, by key; omit lines that were emptied meanwhile."""
    asked = {key: queue.id for queue in queues for key in queue.keys}
    unknown = [(queue, key) for key, queue in asked.items() if key not in _known]
    if unknown:
        if len(_known) > _KNOWN_WISHES:
            _known.clear()
            unknown = [(queue, key) for key, queue in asked.items()]
        with connection.cursor() as cursor:
            cursor.execute(_WISHES, columns(unknown))
            _known.update({row[0]: _wish(row[1:]) for row in cursor.fetchall()})
    return {key: _known[key] for key in asked if key in _known}


def _wish(row: Sequence[Any]) -> Wish:
    resources, pods, pod_spec, node, node_of, avoided, retry, labels = row
    rules, placing = _rules(pod_spec) if pod_spec else (ANY_NODE, "")
    ask = Ask(amounts_of(resources), pods, rules)
    counted = taken_by(resources, pods)
    avoids = frozenset(json.loads(avoided))
    spelt = spellings(json.loads(resources))
    wanted = json.loads(labels) if labels else None
    return Wish(ask, node, node_of, avoids, retry, counted, spelt, wanted, placing)


def placing_text(pod_spec: Mapping[str, Any] | None) -> str:
    """Return what a pod specification says of nodes, as JSON text; "" for nothing."""
    found = placing_of(pod_spec)
    return json.dumps(found, sort_keys=True) if found else ""


def ask_of(resources: Mapping[str, Any], pods: int, pod_spec: Mapping[str, Any] | None) -> Ask:
    """Return what a specification asks for."""
    return Ask(requested(resources), pods, node_rules(pod_spec))


@lru_cache(maxsize=1024)
def amounts_of(resources: str) -> Amounts:
    """Return the amounts in the resources of a specification, given as JSON text."""
    return requested(json.loads(resources))


@lru_cache(maxsize=1024)
def _rules(pod_spec: str) -> tuple[NodeRules, str]:
    found = json.loads(pod_spec)
    return node_rules(found), placing_text(found)


_WISH = f"""
    SELECT {_ASKED}, d.pod_defaults::text
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    LEFT JOIN sessions_app_session f ON f.id = s.parent_id AND s.avoid_node <> ''
    LEFT JOIN sessions_app_retrysettings d ON d.project_id = s.project_id
    WHERE s.id = %s
"""


def wish_of(session_id: UUID) -> Wish | None:
    """Return what one session asks for with the pod defaults of its project; None if it is
    gone."""
    with connection.cursor() as cursor:
        cursor.execute(_WISH, [session_id])
        row = cursor.fetchone()
    if row is None:
        return None
    wish = _wish(row[:-1])
    below = Below().under(_placing(row[-1] or ""))
    return wish._replace(ask=wish.ask_on(below), placing=below.text(wish.placing))


def queue_keys(queue_id: int) -> list[int]:
    """Return the keys of the lines of one queue, at most as many as a round would read."""
    with connection.cursor() as cursor:
        cursor.execute(
            _KEYS,
            {"queues": array([queue_id]), "first": _LOWEST, "most": LINES_OF_A_QUEUE[1]},
        )
        return [key for _, key in cursor.fetchall()]


_HEADS = f"""
    SELECT w.number, s.priority, {MICROSECONDS}, s.root_id, s.id
    FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[])
        WITH ORDINALITY AS w(queue_id, key, past, count, number)
    CROSS JOIN LATERAL (
        SELECT priority, root_submitted_at, root_id, id FROM sessions_app_session
        WHERE phase = 'waiting' AND queue_id = w.queue_id AND scheduling_key = w.key
        ORDER BY priority DESC, root_submitted_at, root_id OFFSET w.past LIMIT w.count
    ) s
    ORDER BY w.number, s.priority DESC, s.root_submitted_at, s.root_id
"""


class Reading(NamedTuple):
    """A request to read a line: skip `past` sessions, then read at most `wanted`."""

    queue_id: int
    line: WaitingLine
    past: int
    wanted: int


def heads_read(readings: Sequence[Reading]) -> None:
    """Read more heads of lines, without locks; some may be claimed by other rounds just now."""
    wanted = [(each.queue_id, each.line.key, each.past, each.wanted) for each in readings]
    with connection.cursor() as cursor:
        cursor.execute(_HEADS, columns(wanted))
        for number, priority, submitted, root, session in cursor.fetchall():
            line = readings[number - 1].line
            line.heads.append(Order(-priority, submitted, not line.retry, root, session))
    for each in readings:
        each.line.more = len(each.line.heads) >= each.wanted


class LineReader:
    """Reads lines further, without locks. `passed` sessions of each line are read already."""

    def __init__(self, queue_of: Mapping[WaitingLine, int], passed: Counter[WaitingLine]):
        self.queue_of = queue_of
        self.passed = passed

    def read(self, wanted: Mapping[WaitingLine, int]) -> None:
        """Read so many more heads of each line."""
        heads_read(
            [
                Reading(self.queue_of[line], line, self.passed[line], count)
                for line, count in wanted.items()
            ]
        )
        self.passed.update(wanted)
