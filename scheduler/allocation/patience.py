"""Lines that fit only on suspect nodes: when these are used after all."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from scheduler.allocation.waiting_lines import RELEASED, BusyQueue
from scheduler.core.fairshare import WaitingLine
from scheduler.models import Executor
from sessions_app.db.bulk import array, columns

PATIENCE = timedelta(seconds=60)
"""Time for which nothing else must have fitted before a suspect node is used."""

Hesitant = Sequence[tuple[BusyQueue, WaitingLine]]

# The lease that a line got last shows that another node had room then.
_SINCE = f"""
    SELECT w.queue_id, w.key, v.id, {RELEASED}, (SELECT max(l.granted_at) FROM scheduler_lease l
        WHERE l.executor_id = %(executor)s AND l.queue_id = w.queue_id
            AND l.scheduling_key = w.key
            AND NOT coalesce(l.nodes, '[]') ?| %(suspects)s::text[])
    FROM unnest(%(queues)s::bigint[], %(keys)s::bigint[]) AS w(queue_id, key)
    CROSS JOIN LATERAL (
        SELECT id FROM sessions_app_session
        WHERE phase = 'waiting' AND queue_id = w.queue_id AND scheduling_key = w.key
        ORDER BY priority DESC, root_submitted_at, root_id LIMIT 1) AS v
"""


class Patience:
    """The patience of lines in one round. Takes one statement at most, and only if a line needs
    it."""

    def __init__(self, executor: Executor, now: datetime):
        self._executor = executor
        self._before = now - PATIENCE
        self._over: set[tuple[int, int]] | None = None

    def over(self, hesitant: Hesitant) -> list[tuple[BusyQueue, WaitingLine]]:
        """Return the lines that have waited for long enough."""
        if hesitant and self._over is None:
            self._over = self._read(hesitant)
        return [each for each in hesitant if (each[0].id, each[1].key) in (self._over or ())]

    def _read(self, hesitant: Hesitant) -> set[tuple[int, int]]:
        queues, keys = columns([(queue.id, line.key) for queue, line in hesitant])
        wanted: dict[str, Any] = {
            "executor": self._executor.pk,
            "suspects": array(sorted(self._executor.suspect_nodes)),
            "queues": queues,
            "keys": keys,
            "since": self._before,
        }
        with connection.cursor() as cursor:
            cursor.execute(_SINCE, wanted)
            rows = cursor.fetchall()
        return {
            (queue, key)
            for queue, key, head, released, granted in rows
            # A UUIDv7 begins with milliseconds: sessions begin to wait when they are made, or when
            # those for which they waited have ended.
            if (head.int >> 80) / 1000 <= self._before.timestamp()
            and not released
            and (granted is None or granted <= self._before)
        }
