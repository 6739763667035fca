"""Events that belong to no session, such as those of nodes: put into the outbox directly."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from sessions_app.db.bulk import columns, json_text
from sessions_app.wakeups import webhooks_after_commit

# A webhook without types, or with `*`, wants the events of its project's sessions, and its receiver
# may know no others. One that is paused gets none: what they say would be old when it goes on.
_TELL = """
    INSERT INTO sessions_app_webhookdelivery
        (endpoint_id, event_id, session_id, type, state, attempts, due_at, redelivery, created_at,
         response_excerpt, error, data)
    SELECT w.id, NULL, NULL, v.type, 'waiting', 0, %s, false, %s, '', '', v.data::jsonb
    FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY
        AS v(type, data, projects, place)
    JOIN sessions_app_webhookendpoint w ON w.paused_at IS NULL
        AND (v.projects IS NULL OR v.projects::jsonb @> to_jsonb(w.project_id))
        AND EXISTS (SELECT FROM unnest(w.event_types) AS t(name) WHERE t.name = v.type
            OR t.name <> '*' AND right(t.name, 1) = '*' AND starts_with(v.type, left(t.name, -1)))
    ORDER BY v.place, w.id
"""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event that belongs to no session."""

    type: str
    """One of `CLUSTER_TYPES`."""
    data: dict[str, Any]
    projects: Collection[int] | None
    """The ids of the only projects whose webhooks get it; None: all."""


def cluster_events_tell(events: Sequence[ClusterEvent], *, now: datetime) -> int:
    """Let the webhooks that name these types get the events, after commit.

    Return the number of deliveries. One statement for any number of events and webhooks.
    """
    rows = [
        (
            event.type,
            json_text(event.data),
            None if event.projects is None else json_text(sorted(event.projects)),
        )
        for event in events
    ]
    with connection.cursor() as cursor:
        cursor.execute(_TELL, [now, now, *columns(rows)])
        made = int(cursor.rowcount)
    if made:
        webhooks_after_commit(sure=True)
    return made
