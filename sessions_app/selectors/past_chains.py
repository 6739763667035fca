"""Past chains for simulations: read in slices, held in memory one at a time."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.evidence.termination import Termination
from retry.simulate import Ending, Past, Record
from sessions_app.core.states import RetryState, Status

SLICE = 1000
"""Number of attempts read by one statement."""

_CLOCKS = timedelta(days=1)
"""Maximum time by which the clocks that made the ids may have been behind the database's."""
_NO_ROOT = UUID(int=0)

# The ids begin with a time, so that older ones need not be read. The roots of one slice are chosen
# first: whatever PostgreSQL estimates about projects and windows, it reads no more.
_ROOTS = """
    SELECT r.id FROM sessions_app_session r
    WHERE r.project_id = %s AND r.parent_id IS NULL AND r.finished_at IS NOT NULL
        AND r.created_at >= %s AND r.created_at < %s AND r.id >= %s
    ORDER BY r.id LIMIT %s
"""
_COUNT = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM ({_ROOTS}) AS r JOIN sessions_app_session s ON s.root_id = r.id
        WHERE s.finished_at IS NOT NULL LIMIT %s
    ) AS found
"""
_ROWS = f"""
    SELECT r.id, s.id, s.retry_count, s.session_type, s.status, s.retry_state,
        extract(epoch FROM s.finished_at - s.created_at)::float8,
        extract(epoch FROM s.finished_at - s.started_at)::float8,
        extract(epoch FROM s.finished_at - d.preempted_at)::float8,
        d.termination::text, (d.trace -> -1)::text, d.requested_by <> '' OR d.dispatched_by <> '',
        CASE WHEN s.retry_count = 0 THEN s.retry_policy::text END,
        CASE WHEN s.retry_count = 0 THEN s.retry_policies::text END, p.resources::text
    FROM ({_ROOTS}) AS r JOIN sessions_app_session s ON s.root_id = r.id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    LEFT JOIN sessions_app_sessionspec p ON p.id = s.spec_id AND s.retry_count = 0
    WHERE NOT (s.root_id = %s AND s.retry_count <= %s)
    ORDER BY r.id, s.retry_count LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Window:
    """The chains of a project whose root was created from `since` to before `until`.

    A chain whose first attempt has not ended yet is left out.
    """

    project_id: int
    since: datetime
    until: datetime

    def roots(self, most: int, *, at_least: UUID | None = None) -> list[Any]:
        """Return the parameters of `_ROOTS`."""
        first = at_least or _first_id(self.since - _CLOCKS)
        return [self.project_id, self.since, self.until, first, most]


def _first_id(moment: datetime) -> UUID:
    """Return the smallest UUIDv7 of a moment."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80)


@dataclass(frozen=True, slots=True)
class PastChain:
    """A chain and its policies: the frozen inline policy (JSON text) and the names of others."""

    past: Past
    retry_policy: str
    names: tuple[str, ...]


def ended_attempts(window: Window, *, most: int) -> int:
    """Return how many attempts of the window's chains have ended, counted up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [*window.roots(most), most])
        row: tuple[int] = cursor.fetchone()
    return row[0]


def past_chains(window: Window) -> Iterator[list[PastChain]]:
    """Yield the window's chains in the order of their roots' ids, slice by slice."""
    rows: list[_Row] = []
    while True:
        root_id, retry_count = (rows[-1].root_id, rows[-1].retry_count) if rows else (None, None)
        # The root where the last slice ended may have no attempts left.
        roots = window.roots(SLICE + 1, at_least=root_id)
        with connection.cursor() as cursor:
            cursor.execute(_ROWS, [*roots, root_id or _NO_ROOT, retry_count or 0, SLICE])
            found = [_Row._make(row) for row in cursor.fetchall()]
        rows += found
        chains = [list(chain) for _, chain in groupby(rows, key=lambda row: row.root_id)]
        # The last chain may continue in the next slice.
        rows = chains.pop() if len(found) == SLICE else []
        if chains:
            yield [_past_chain(chain) for chain in chains]
        if len(found) < SLICE:
            return


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

    @property
    def granted(self) -> bool:
        return self.decided is not None and json.loads(self.decided)["result"] == "retry"


def _past_chain(rows: Sequence[_Row]) -> PastChain:
    root = rows[0]
    by_hand = (at for at, row in enumerate(rows, 1) if row.by_hand)
    # What follows a manual retry is not the engine's decision.
    part = rows[: next(by_hand, len(rows))]
    ended = [row for row in part if row.lasted is not None]
    past = Past(
        session_type=root.session_type,
        resources=json.loads(root.resources or "{}"),
        endings=[_ending(row) for row in ended],
        record=_record(root.root_id, part),
    )
    names: list[str] = json.loads(root.retry_policies or "[]")
    return PastChain(past, root.retry_policy or "{}", tuple(names))


def _ending(row: _Row) -> Ending:
    return Ending(
        termination=_termination(row),
        session_id=str(row.session_id),
        lasted=max(0.0, row.lasted or 0.0),
        preempted_for=row.preempted_for,
        ran=max(0.0, row.ran or 0.0),
    )


def _termination(row: _Row) -> Termination:
    if row.termination is not None:
        return Termination.from_json(json.loads(row.termination))
    return Termination(status=_STATUSES.get(row.status, "error"))


_STATUSES = {Status.TERMINATED.value: "terminated", Status.CANCELLED.value: "cancelled"}


def _record(root_id: UUID, part: Sequence[_Row]) -> Record:
    last = part[-1]
    outcome = _outcome(last)
    waits = outcome == "retrying" and last.granted
    cancelled_waiting = outcome == "cancelled" and last.granted
    return Record(str(root_id), outcome, len(part) + waits, cancelled_waiting)


def _outcome(last: _Row) -> str:
    """Return a chain's outcome by its last attempt, or the last before a manual retry."""
    if last.by_hand and last.decided is not None:
        state: str = json.loads(last.decided)["retry_state"]
        return "retrying" if last.granted else state
    return last.retry_state if last.retry_state in _OUTCOMES else "retrying"


_OUTCOMES = {
    RetryState.SUCCEEDED.value,
    RetryState.EXHAUSTED.value,
    RetryState.NOT_RETRIED.value,
    RetryState.CANCELLED.value,
}
