"""Preemption grace: a retry waits less long once the end of its parent's run is confirmed."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from sessions_app import wakeups
from sessions_app.db.bulk import array
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession
from sessions_app.services.write.transitions import Change, Event, fact, sessions_change

# A retry with a slot under the storm limits has already waited longer than its grace.
_CONFIRM = """
    UPDATE sessions_app_retrydecision
    SET due_at = greatest(%(now)s, preempted_at + make_interval(secs => delay))
    WHERE session_id = ANY(%(sessions)s::uuid[])
        AND state = 'scheduled' AND NOT paced AND preempted_at IS NOT NULL
        AND due_at > greatest(%(now)s, preempted_at + make_interval(secs => delay))
    RETURNING session_id, due_at
"""


def decisions_confirm(
    writes: Writes, sessions: Sequence[LockedSession], *, now: datetime
) -> dict[UUID, int]:
    """Bring retries forward whose parent's end is now confirmed.

    The sessions are settled and locked. A retry after a preemption is then due as if the end had
    been known: its delay after the first observation of the preemption. Return the number of the
    last event of each session whose retry was brought forward.
    """
    if not sessions:
        return {}
    with connection.cursor() as cursor:
        ids = array(session.id for session in sessions)
        cursor.execute(_CONFIRM, {"now": now, "sessions": ids})
        due: dict[UUID, datetime] = dict(cursor.fetchall())
    changes = [_brought_forward(each, due[each.id]) for each in sessions if each.id in due]
    sessions_change(writes, changes, now=now)
    wakeups.retries_due_after_commit(due.values(), now=now)
    return {change.session.id: change.session.event_seq + 1 for change in changes}


def _brought_forward(session: LockedSession, due_at: datetime) -> Change:
    facts = {"reason": "the end of the run is confirmed", "due_at": fact(due_at)}
    event = Event("session.retry_scheduled", {**facts, "decision": {"due_at": fact(due_at)}})
    return Change(session, {}, [event])
