"""Past chains for simulations: read in slices, held in memory one at a time."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, zip_longest
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.engine.decision import Payment
from retry.evidence.causes import FAILURE_CAUSES
from retry.evidence.termination import Termination
from retry.simulate import ROOT_CREATED_AT, Ending, Past, Place, Record
from sessions_app.core.states import RetryState, Status
from sessions_app.db.bulk import array
from sessions_app.models import Session
from sessions_app.models.retries import TRACE

SLICE = 1000
"""Number of ended attempts, about, that one statement reads."""

_CLOCKS = timedelta(days=1)
"""Maximum time by which the clocks that made the ids may have differed from the database's."""

IN_AREA = """
    (%(project)s::bigint IS NULL OR o.id = %(project)s)
    AND (%(domain)s::bigint IS NULL OR o.domain_id = %(domain)s)
"""
"""SQL of whether the project `o` is in an `Area`."""

# The ids begin with a time, so that others need not be read. The roots are chosen first, and each
# queue is read along its index, whatever PostgreSQL estimates about projects and windows.
_ROOTS = f"""
    SELECT f.id FROM sessions_app_queue q JOIN sessions_app_project o ON o.id = q.project_id
    CROSS JOIN LATERAL (
        SELECT r.id FROM sessions_app_session r
        WHERE r.queue_id = q.id AND r.parent_id IS NULL AND r.finished_at IS NOT NULL
            AND r.created_at >= %(since)s AND r.created_at < %(until)s
            AND r.id >= %(first)s AND r.id < %(last)s
        ORDER BY r.id NULLS FIRST LIMIT %(most)s) f
    WHERE {IN_AREA} LIMIT %(most)s
"""
# The first root of each slice, and how many attempts all of them have.
_SLICES = f"""
    WITH chains AS (
        SELECT id, count(*) AS ended FROM (
            SELECT r.id FROM ({_ROOTS}) AS r JOIN sessions_app_session s ON s.root_id = r.id
            WHERE s.finished_at IS NOT NULL LIMIT %(most)s) AS found
        GROUP BY id
    ), placed AS (
        SELECT id, (sum(ended) OVER ())::bigint AS attempts,
            (sum(ended) OVER (ORDER BY id) - ended)::bigint / %(slice)s AS slice FROM chains
    )
    SELECT DISTINCT ON (slice) id, attempts FROM placed ORDER BY slice, id
"""
_COLUMNS = f"""
    r.id, s.id, s.retry_count, s.session_type, s.status, s.retry_state,
    extract(epoch FROM s.finished_at - s.created_at)::float8,
    extract(epoch FROM s.finished_at - s.started_at)::float8,
    extract(epoch FROM s.finished_at - d.preempted_at)::float8,
    d.termination::text, ({TRACE} -> -1)::text, d.requested_by <> '' OR d.dispatched_by <> '',
    CASE WHEN s.retry_count = 0 THEN s.retry_policy::text END,
    CASE WHEN s.retry_count = 0 THEN s.retry_policies::text END, p.resources::text,
    s.failure_signature, coalesce((s.progress -> 'advanced')::boolean, false),
    s.gave_way_to IS NOT NULL, coalesce(s.failure_title, ''),
    extract(epoch FROM s.created_at)::float8, extract(epoch FROM s.finished_at)::float8,
    s.queue_id, s.project_id,
    (SELECT o.domain_id FROM sessions_app_project o WHERE o.id = s.project_id)
"""
# Only breakers ask for it. The row of the session does not have it.
_GENERIC = """
    %(generic)s AND s.failure_signature <> '' AND EXISTS (SELECT FROM sessions_app_sessionevent e
        WHERE e.session_id = s.id AND e.type = 'session.error' AND e.data ? 'failure_generic')
"""
_JOINS = """
    JOIN sessions_app_session s ON s.root_id = r.id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    LEFT JOIN sessions_app_retrytrace t ON t.session_id = d.session_id
    LEFT JOIN sessions_app_sessionspec p ON p.id = s.spec_id AND s.retry_count = 0
"""
_ROWS = f"""
    SELECT {_COLUMNS}, {_GENERIC} FROM ({_ROOTS}) AS r {_JOINS} ORDER BY r.id, s.retry_count
"""
# Of each stretch of ids the newest rows are read: the ids from the index, queue by queue.
_SAMPLE = """
    SELECT r.id FROM unnest(%(first)s::uuid[], %(last)s::uuid[]) AS d(first, last)
    CROSS JOIN LATERAL (
        SELECT n.id FROM (
            SELECT f.id FROM sessions_app_queue q CROSS JOIN LATERAL (
                SELECT s.id FROM sessions_app_session s
                WHERE s.queue_id = q.id AND s.id >= d.first AND s.id < d.last
                ORDER BY s.id DESC NULLS LAST LIMIT %(seen)s) f
            WHERE q.project_id = %(project)s ORDER BY f.id DESC LIMIT %(seen)s
        ) AS n JOIN sessions_app_session t ON t.id = n.id
        WHERE t.parent_id IS NULL AND t.finished_at IS NOT NULL
        ORDER BY n.id DESC LIMIT %(most)s
    ) r
"""
_ROWS_OF = f"""
    SELECT {_COLUMNS}, false FROM unnest(%s::uuid[]) AS r(id) {_JOINS}
    ORDER BY r.id, s.retry_count LIMIT %s
"""
_ROWS_FROM = f"""
    SELECT {_COLUMNS}, false FROM (SELECT %s::uuid AS id) AS r {_JOINS}
    WHERE s.retry_count >= %s ORDER BY s.retry_count
"""


_BEFORE = """
    SELECT d.paid_by, d.decided_at, s.retry_cause,
        CASE WHEN (s.progress -> 'advanced')::boolean THEN '' ELSE s.failure_signature END
    FROM sessions_app_session s JOIN sessions_app_retrydecision d ON d.session_id = s.id
    WHERE s.root_id = %s AND s.retry_count < %s ORDER BY s.retry_count DESC
"""


class Area(NamedTuple):
    """A project, a domain, or the cluster: all projects."""

    project_id: int | None = None
    domain_id: int | None = None

    @property
    def parameters(self) -> dict[str, int | None]:
        """Return the parameters of its statements; None is not asked about."""
        return {"project": self.project_id, "domain": self.domain_id}


def first_id(moment: datetime) -> UUID:
    """Return the smallest UUIDv7 of a moment."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80)


@dataclass(frozen=True, slots=True)
class Window:
    """The chains of an area whose root was created from `since` to before `until`.

    A chain whose first attempt has not ended yet is left out.
    """

    area: Area
    since: datetime
    until: datetime
    most: int
    """Maximum number of attempts that are read."""

    def roots(self, first: UUID | None = None, last: UUID | None = None) -> dict[str, Any]:
        """Return the parameters of `_ROOTS`, for ids from `first` to before `last`."""
        return {
            **self.area.parameters,
            "since": self.since,
            "until": self.until,
            "first": first or first_id(self.since - _CLOCKS),
            "last": last or first_id(self.until + _CLOCKS),
            "most": self.most + 1,
        }


@dataclass(frozen=True, slots=True)
class PastChain:
    """A chain and its policies: the frozen inline policy (JSON text) and the names of others."""

    past: Past
    retry_policy: str
    names: tuple[str, ...]


def chain_slices(window: Window) -> list[UUID] | None:
    """Return the first root of each slice of a window; None if it has more attempts that have ended
    than are read."""
    with connection.cursor() as cursor:
        cursor.execute(_SLICES, {**window.roots(), "slice": SLICE})
        rows = cursor.fetchall()
    return None if rows and rows[0][1] > window.most else [root for root, _ in rows]


def past_chains(
    window: Window, slices: Sequence[UUID], *, generic: bool = False
) -> Iterator[list[PastChain]]:
    """Yield the window's chains in the order of their roots' ids, slice by slice.

    `generic` also reads which signatures open no breaker.
    """
    for first, last in zip_longest(slices, slices[1:]):
        with connection.cursor() as cursor:
            cursor.execute(_ROWS, {**window.roots(first, last), "generic": generic})
            yield _chains(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a sample is taken: of each of the last days, the newest chains, within bounds."""

    days: int = 30
    of_a_day: int = 50
    """Most chains of one day."""
    seen_of_a_day: int = 1000
    """Most attempts of one day among which their first ones are looked for."""
    attempts: int = 10_000
    """Most attempts that are read."""


def chains_sampled(project_id: int, until: datetime, how: Sampling) -> list[PastChain]:
    """Return chains of a project whose first attempt has ended, in two statements.

    What is read does not grow with the number of sessions. The days are told apart by the ids, that
    is by the clocks that made them.
    """
    moments = [until - timedelta(days=days) for days in range(how.days, -1, -1)]
    ids = [first_id(moment) for moment in moments]
    with connection.cursor() as cursor:
        bounds = {"first": array(ids[:-1]), "last": array(ids[1:])}
        most = {"seen": how.seen_of_a_day, "most": how.of_a_day}
        cursor.execute(_SAMPLE, {**bounds, **most, "project": project_id})
        roots = sorted(root for (root,) in cursor.fetchall())
        cursor.execute(_ROWS_OF, [array(roots), how.attempts + 1])
        rows = cursor.fetchall()
    chains = _chains(rows)
    # The last one may be cut.
    return chains[:-1] if len(rows) > how.attempts else chains


def past_from(session: Session) -> PastChain:
    """Return the chain of a session from this attempt on, with what it had spent until then.

    The session was read with its specification. Two statements. If the attempt has not ended, there
    is no end in it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ROWS_FROM, [session.root_id, session.retry_count])
        rows = [_Row._make(row) for row in cursor.fetchall()]
        before: list[tuple[str, datetime, str, str]] = []
        if session.retry_count:
            cursor.execute(_BEFORE, [session.root_id, session.retry_count])
            before = cursor.fetchall()
    began = session.root_submitted_at
    paid = tuple(Payment(by, ROOT_CREATED_AT + (at - began)) for by, at, _, _ in before if by)
    failures = tuple(key for _, _, cause, key in before if cause in FAILURE_CAUSES)
    past = replace(
        _past(rows, session.spec.resources),
        first=session.retry_count,
        begun=(session.created_at - session.root_submitted_at).total_seconds(),
        counters=session.retry_counters,
        paid=paid,
        failures=failures,
        marks=session.retry_marks or {},
    )
    return PastChain(past, json.dumps(session.retry_policy), tuple(session.retry_policies))


class _Row(NamedTuple):
    root_id: UUID
    session_id: UUID
    retry_count: int
    session_type: str
    status: str
    retry_state: str
    lasted: float | None
    ran: float | None
    preempted_for: float | None
    termination: str | None
    decided: str | None
    """The last step of the trace: the engine's decision, whatever people did afterwards."""
    by_hand: bool | None
    retry_policy: str | None
    retry_policies: str | None
    resources: str | None
    signature: str
    advanced: bool
    gave_way: bool
    title: str
    created: float
    ended: float | None
    queue_id: int
    project_id: int
    domain_id: int
    generic: bool


def _chains(rows: Iterable[Sequence[Any]]) -> list[PastChain]:
    """Return the chains of rows that come in the order of their roots and attempts."""
    read = (_Row._make(row) for row in rows)
    return [_past_chain(list(chain)) for _, chain in groupby(read, key=lambda row: row.root_id)]


def _past_chain(rows: Sequence[_Row]) -> PastChain:
    root = rows[0]
    names: list[str] = json.loads(root.retry_policies or "[]")
    past = _past(rows, json.loads(root.resources or "{}"))
    return PastChain(past, root.retry_policy or "{}", tuple(names))


def _past(rows: Sequence[_Row], resources: Mapping[str, Any]) -> Past:
    by_hand = (at for at, row in enumerate(rows, 1) if row.by_hand)
    # What follows a manual retry is not the engine's decision.
    part = rows[: next(by_hand, len(rows))]
    return Past(
        session_type=rows[0].session_type,
        resources=resources,
        endings=[_ending(row) for row in part if row.lasted is not None],
        record=_record(rows[0].root_id, part),
        created=rows[0].created,
        place=Place(rows[0].queue_id, rows[0].project_id, rows[0].domain_id),
    )


def _ending(row: _Row) -> Ending:
    return Ending(
        termination=_termination(row),
        session_id=str(row.session_id),
        lasted=max(0.0, row.lasted or 0.0),
        preempted_for=row.preempted_for,
        ran=max(0.0, row.ran or 0.0),
        signature=row.signature,
        advanced=row.advanced,
        gave_way=row.gave_way,
        title=row.title,
        ended=row.ended or 0.0,
        generic=row.generic,
    )


def _termination(row: _Row) -> Termination:
    if row.termination is not None:
        return Termination.from_json(json.loads(row.termination))
    return Termination(status=_STATUSES.get(row.status, "error"))


_STATUSES = {Status.TERMINATED.value: "terminated", Status.CANCELLED.value: "cancelled"}


def _record(root_id: UUID, part: Sequence[_Row]) -> Record:
    last = part[-1]
    decided = json.loads(last.decided) if last.decided is not None else {}
    granted = decided.get("result") == "retry"
    outcome = _outcome(last, decided)
    waits = outcome == "retrying" and granted
    cancelled_waiting = outcome == "cancelled" and granted
    goes_on = last.lasted is None
    was_parked = decided.get("retry_state") == RetryState.PARKED and outcome != RetryState.PARKED
    parked = str(last.session_id) if was_parked else ""
    return Record(str(root_id), outcome, len(part) + waits, cancelled_waiting, goes_on, parked)


def _outcome(last: _Row, decided: Mapping[str, Any]) -> str:
    """Return a chain's outcome by its last attempt, or the last before a manual retry."""
    if last.by_hand and decided:
        return "retrying" if decided["result"] == "retry" else str(decided["retry_state"])
    return last.retry_state if last.retry_state in _OUTCOMES else "retrying"


_OUTCOMES = {
    RetryState.SUCCEEDED.value,
    RetryState.EXHAUSTED.value,
    RetryState.PARKED.value,
    RetryState.NOT_RETRIED.value,
    RetryState.CANCELLED.value,
}
