"""Writes of decisions: settle inserts them, and dispatch, cancel and switches change them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.engine.budgets import MANUAL_BUDGET
from retry.engine.decide import Decision
from sessions_app.db.bulk import SentRows, array, columns, json_array
from sessions_app.db.writes import Writes
from sessions_app.services.write.transitions import fact


class NewDecision(NamedTuple):
    """A decision about one session, and the facts it is based on (JSON)."""

    session_id: UUID
    project_id: int
    decision: Decision
    termination: dict[str, Any]
    avoid_executor: str
    resources: dict[str, Any] | None = None
    """The resources of the next attempt, if they differ."""
    preempted_at: datetime | None = None

    @property
    def changes(self) -> dict[str, Any] | None:
        """Return what its rule changes for the next attempt, in the form of `retry_changes.py`."""
        place = self.decision.placement
        return None if place is None else {"placement": dict(place)}


# The trace has a table of its own, since dispatch writes the decision's row again.
_TRACES = SentRows[[NewDecision]](
    ("session_id", "uuid", lambda new: new.session_id),
    ("steps", "jsonb", lambda new: new.decision.trace),
)
_TRACE = _TRACES.inserted("sessions_app_retrytrace")
_DECISIONS = SentRows[[NewDecision]](
    ("session_id", "uuid", lambda new: new.session_id),
    ("project_id", "bigint", lambda new: new.project_id),
    ("state", "text", lambda new: new.decision.state),
    ("action", "text", lambda new: new.decision.action),
    ("reason", "text", lambda new: new.decision.reason),
    ("cause", "text", lambda new: new.decision.cause.value),
    ("rule", "text", lambda new: new.decision.rule or ""),
    ("paid_by", "text", lambda new: new.decision.paid_by or ""),
    ("used", "int", lambda new: new.decision.used),
    ('"limit"', "int", lambda new: new.decision.limit),
    ("delay", "float8", lambda new: new.decision.delay),
    ("due_at", "timestamptz", lambda new: new.decision.due_at),
    ("avoid_node", "text", lambda new: new.decision.avoid_node),
    ("avoid_executor", "text", lambda new: new.avoid_executor),
    ("termination", "jsonb", lambda new: new.termination),
    ("policy_revisions", "jsonb", lambda new: new.decision.revisions),
    ("resources", "jsonb", lambda new: new.resources),
    ("preempted_at", "timestamptz", lambda new: new.preempted_at),
    ("held_for", "text", lambda new: new.decision.held_for),
    ("held_key", "text", lambda new: new.decision.held_key),
    ("changes", "jsonb", lambda new: new.changes),
)
_INSERT = _DECISIONS.inserted(
    "sessions_app_retrydecision", {"decided_at": "%s", "dispatched_by": "''"}
)


def decisions_insert(writes: Writes, news: Sequence[NewDecision], *, now: datetime) -> None:
    """Write the decisions of one settled batch, and their traces."""
    if not news:
        return
    with writes.together():
        writes.add(_TRACE, _TRACES.arrays(news))
        writes.add(_INSERT, [now, *_DECISIONS.arrays(news)])


def decision_fact(decision: Decision) -> dict[str, Any]:
    """Return a decision as it appears in the event of its failure."""
    return {
        "state": decision.state,
        "action": decision.action,
        "reason": decision.reason,
        "cause": decision.cause.value,
        "rule": decision.rule,
        "paid_by": decision.paid_by,
        "used": decision.used,
        "limit": decision.limit,
        "delay": decision.delay,
        "due_at": fact(decision.due_at),
        "next_session_id": None,
        "dispatched_by": "",
    }


# Each of these moves decisions whose roots are locked.
_HOLD = """
    UPDATE sessions_app_retrydecision d
    SET state = 'held', held_for = v.held_for, held_key = v.key, held_order = v.place
    FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::timestamptz[])
        AS v(session_id, held_for, key, place)
    WHERE d.session_id = v.session_id
"""
# Before the last step, which says what was decided. What is held again by the same has its step.
# Of what holds a retry in turns, the first ones are enough.
_HOLD_STEP = """
    UPDATE sessions_app_retrytrace t
    SET steps = jsonb_insert(t.steps, '{-1}', v.step || jsonb_build_object('at', %s::text))
    FROM unnest(%s::uuid[], %s::jsonb[]) AS v(session_id, step)
    WHERE t.session_id = v.session_id AND NOT coalesce(t.steps -> -2 @> v.step, false)
        AND jsonb_array_length(jsonb_path_query_array(t.steps, '$[*].at')) < 20
"""
# A slot in the past is lost: it was for the time before the switch was changed.
_RESUME = """
    UPDATE sessions_app_retrydecision SET state = 'scheduled', paced = paced AND due_at > %s,
        held_for = '', held_key = ''
    WHERE session_id = ANY(%s::uuid[])
"""
_CANCEL = """
    UPDATE sessions_app_retrydecision SET state = 'cancelled', held_for = '', held_key = ''
    WHERE session_id = ANY(%s::uuid[]) RETURNING session_id, paced, due_at
"""
_GIVE_UP = """
    UPDATE sessions_app_retrydecision
    SET state = 'final', due_at = NULL, held_for = '', held_key = ''
    WHERE session_id = ANY(%s::uuid[]) RETURNING session_id, reason, cause
"""
_POSTPONE = """
    UPDATE sessions_app_retrydecision d SET due_at = v.due_at, paced = true
    FROM unnest(%s::uuid[], %s::timestamptz[]) AS v(session_id, due_at)
    WHERE d.session_id = v.session_id
"""
_PAID_BY_HAND = """
    UPDATE sessions_app_retrydecision d SET paid_by = %s, used = v.used, "limit" = NULL
    FROM unnest(%s::uuid[], %s::int[]) AS v(session_id, used) WHERE d.session_id = v.session_id
"""
_DISPATCHED = """
    UPDATE sessions_app_retrydecision d SET state = 'dispatched', next_session_id = v.child_id,
        dispatched_at = %s, dispatched_by = v.by, resources = v.resources::jsonb,
        held_for = '', held_key = '', changes = d.changes - 'secrets'
    FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[])
        AS v(session_id, child_id, by, resources)
    WHERE d.session_id = v.session_id
"""


class Hold(NamedTuple):
    """A reason to hold the retry of a failed session, with the facts of its step in the trace."""

    session_id: UUID
    held_for: str
    key: str = ""
    place: datetime | None = None
    """In a line: the time that says who goes first."""
    facts: Mapping[str, Any] = MappingProxyType({})


def decisions_hold(holds: Sequence[Hold], *, now: datetime) -> None:
    """Remove decisions from the index of due ones until what holds them lets them go.

    Their traces say so, too.
    """
    _execute(_HOLD, columns([hold[:4] for hold in holds]))
    steps = [{"step": hold.held_for, "result": "held", **hold.facts} for hold in holds]
    ids = array(hold.session_id for hold in holds)
    _execute(_HOLD_STEP, [fact(now), ids, json_array(steps)])


def decisions_resume(session_ids: Sequence[UUID], *, now: datetime) -> None:
    """Put held decisions back into the index of due ones."""
    _execute(_RESUME, [now, array(session_ids)])


def decisions_cancel(session_ids: Sequence[UUID]) -> dict[UUID, datetime]:
    """Cancel waiting decisions. Return the times of their slots under the storm limits."""
    with connection.cursor() as cursor:
        cursor.execute(_CANCEL, [array(session_ids)])
        return {session_id: due_at for session_id, paced, due_at in cursor.fetchall() if paced}


def decisions_give_up(session_ids: Sequence[UUID]) -> dict[UUID, dict[str, str]]:
    """Make the decisions about parked chains final. Return the reason and the cause of each."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_UP, [array(session_ids)])
        return {row[0]: {"reason": row[1], "cause": row[2]} for row in cursor.fetchall()}


def decisions_postpone(slots: Sequence[tuple[UUID, datetime]]) -> None:
    """Set the due times of decisions to their slots under the storm limits."""
    _execute(_POSTPONE, columns(slots))


class RetryRequest(NamedTuple):
    """A manual retry that waits: its slot, its payer, and the resources of the next attempt."""

    session_id: UUID
    due_at: datetime
    paid_by: str
    used: int | None
    limit: int | None
    resources: Mapping[str, Any] | None
    """None: those of the attempt before."""
    changes: Mapping[str, Any] | None = None
    """None: nothing else changes, either."""


_REQUESTS = SentRows[[RetryRequest]](
    ("session_id", "uuid", lambda request: request.session_id),
    ("due_at", "timestamptz", lambda request: request.due_at),
    ("paid_by", "text", lambda request: request.paid_by),
    ("used", "int", lambda request: request.used),
    ('"limit"', "int", lambda request: request.limit),
    ("resources", "jsonb", lambda request: request.resources),
    ("changes", "jsonb", lambda request: request.changes),
)
_REQUEST = f"""
    UPDATE sessions_app_retrydecision d SET state = 'scheduled', due_at = v.due_at, paced = true,
        paid_by = v.paid_by, used = v.used, "limit" = v."limit", resources = v.resources::jsonb,
        requested_by = %s, held_for = '', held_key = '', changes = v.changes::jsonb
    FROM {_REQUESTS} WHERE d.session_id = v.session_id
"""


def decisions_request(requests: Sequence[RetryRequest], *, by: str) -> None:
    """Make decisions wait for their slots on behalf of `by`."""
    _execute(_REQUEST, [by, *_REQUESTS.arrays(requests)])


def decisions_paid_by_hand(used: Sequence[tuple[UUID, int]]) -> None:
    """Record that manual retries carry decisions out, which their own counter pays.

    The pairs are failed sessions and the number of manual retries that their chains had before.
    """
    if used:
        _execute(_PAID_BY_HAND, [MANUAL_BUDGET, *columns(used)])


def decisions_dispatched(
    writes: Writes, rows: Sequence[tuple[UUID, UUID, str, str | None]], *, now: datetime
) -> None:
    """Mark decisions as dispatched.

    The rows are failed sessions with their child, who asked for it ("" for the engine), and its
    resources as JSON text (None: its parent's).
    """
    if rows:
        writes.add(_DISPATCHED, [now, *columns(rows)], rows=len(rows))


def _execute(statement: str, parameters: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
