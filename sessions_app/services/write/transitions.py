"""The only writer of statuses: rows and their events, together and in bulk.

A service that holds the locks says what changes in which session and why. This module checks the
table of transitions, writes all rows in one statement for each set of columns, and all events in
one. The events carry the changed facts, so that the log always folds to the row.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.db import connection, transaction

from sessions_app.core import states
from sessions_app.core.columns import SESSION
from sessions_app.core.fold import FACTS
from sessions_app.core.states import EVENT_TYPES, Status
from sessions_app.db.bulk import array, copy_text, from_array, inserted, json_array, unnested
from sessions_app.db.writes import Writes
from sessions_app.eventlog.reading import QUIET, RETRY_EVENTS
from sessions_app.services.write.usage import Move, usage_note
from sessions_app.wakeups import ended_after_commit, webhooks_after_commit

logger = logging.getLogger("sessions_app.events")

# What a change may set. `status` brings `phase` with it, and `retry_state` brings `resting`.
_TYPES = {name: column.type for name, column in SESSION.items() if column.changes}
_FACTS = frozenset(FACTS)
_ENDED = frozenset(states.ENDED_STATES)
_FAILED = frozenset({EVENT_TYPES[Status.ERROR], EVENT_TYPES[Status.CANCELLED]})


class Writable(Protocol):
    """The fields of a session that its events need."""

    @property
    def id(self) -> UUID: ...
    @property
    def root_id(self) -> UUID: ...
    @property
    def project_id(self) -> int: ...
    @property
    def job_set(self) -> str: ...
    @property
    def retry_count(self) -> int: ...
    @property
    def status(self) -> Status: ...
    @property
    def event_seq(self) -> int: ...


class Movable(Writable, Protocol):
    """The fields of an existing session that a change needs."""

    @property
    def limited(self) -> bool: ...
    @property
    def quiet(self) -> bool: ...


@dataclass(slots=True)
class Event:
    """An event of the contract: its type, and data in addition to the changed facts."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Change:
    """New values for columns of one locked session, and the events that record them.

    The first event gets the changed facts. A change of facts without an event is refused.
    """

    session: Movable
    set: dict[str, Any]
    events: list[Event] = field(default_factory=list)


class EventRow(NamedTuple):
    """An event as it is written, with its session."""

    session: Writable
    seq: int
    type: str
    data: dict[str, Any]


def sessions_change(
    writes: Writes,
    changes: Sequence[Change],
    *,
    now: datetime,
    within_quotas: bool = False,
    beside: Sequence[EventRow] = (),
) -> None:
    """Apply changes to sessions that the caller has locked, in its transaction.

    Events in `beside`, of sessions that the caller has just created, are written with theirs. The
    counters of their projects come last; with `within_quotas` only up to the limits. Raises
    `TransitionNotAllowed` before anything is written if the table forbids a change.
    """
    groups: dict[tuple[str, ...], list[tuple[UUID, dict[str, Any]]]] = defaultdict(list)
    rows: list[EventRow] = []
    for change in changes:
        values = _checked(change)
        rows.extend(_numbered(change))
        if change.events:
            values["event_seq"] = change.session.event_seq + len(change.events)
        if values:
            groups[tuple(sorted(values))].append((change.session.id, values))
    for columns, members in groups.items():
        _update(writes, columns, members)
    events_append(writes, [*rows, *beside], now=now)
    usage_note(writes, _moves(changes, within_quotas))
    ended = [each.session.root_id for each in changes if each.set.get("retry_state") in _ENDED]
    if ended:
        ended_after_commit(ended)


def _moves(changes: Sequence[Change], guarded: bool) -> Iterable[Move]:
    for change in changes:
        target = change.set.get("status")
        session = change.session
        if target is not None and session.limited:
            before, after = states.phase_of(session.status), states.phase_of(target)
            yield Move(session.id, session.project_id, before, after, guarded)


def _checked(change: Change) -> dict[str, Any]:
    values = dict(change.set)
    target = values.get("status")
    if target is not None:
        states.check(change.session.status, target)
        values["phase"] = states.phase_of(target).value
        values["status"] = target.value
    if "retry_state" in values:
        values["resting"] = states.resting(values["retry_state"])
    if not change.events and not _FACTS.isdisjoint(values):
        raise AssertionError(f"facts changed without an event: {sorted(values)}")
    return values


def _numbered(change: Change) -> Iterable[EventRow]:
    for position, event in enumerate(change.events):
        data = event.data
        if position == 0:
            facts = {key: fact(value) for key, value in change.set.items() if key in _FACTS}
            data = {**facts, **data}
        if event.type.startswith(RETRY_EVENTS) and change.session.quiet:
            data = {**data, QUIET: True}
        yield EventRow(change.session, change.session.event_seq + position + 1, event.type, data)


def fact(value: Any) -> Any:
    """Return a column's value as events store it: times as ISO 8601 text in UTC, ids as text."""
    if isinstance(value, datetime):
        return _shown(value)
    if isinstance(value, UUID):
        return str(value)
    return value


@lru_cache(maxsize=16)
def _shown(time: datetime) -> str:
    # Most of a batch have one moment.
    return time.astimezone(UTC).isoformat()


def _update(
    writes: Writes, columns: tuple[str, ...], members: list[tuple[UUID, dict[str, Any]]]
) -> None:
    parameters = [array(member[0] for member in members)]
    for column in columns:
        pack = json_array if _TYPES[column] == "jsonb" else array
        parameters.append(pack(member[1][column] for member in members))
    writes.add(_update_of(columns), parameters, rows=len(members))


@cache
def _update_of(columns: tuple[str, ...]) -> str:
    types = {"id": SESSION["id"].type, **{column: _TYPES[column] for column in columns}}
    values = ", ".join(f"{column} = {from_array(column, _TYPES[column])}" for column in columns)
    return (
        f"UPDATE sessions_app_session s SET {values} "  # own column names
        f"FROM {unnested(types)} WHERE s.id = v.id"
    )


COPIED = 20
"""Number of events from which on they are copied: each takes less WAL and less CPU time, and all of
them one round trip more."""
# No `SentRows`: nothing is written as often, and to make a whole row at once is a sixth faster.
_EVENT = {
    "session_id": "uuid",
    "root_id": "uuid",
    "project_id": "bigint",
    "job_set": "text",
    "attempt": "int",
    "seq": "int",
    "type": "text",
    "time": "timestamptz",
    "data": "jsonb",
}


def _event(row: EventRow, now: datetime) -> tuple[Any, ...]:
    """Return the values of `_EVENT`, in its order."""
    session = row.session
    return (
        session.id,
        session.root_id,
        session.project_id,
        session.job_set,
        session.retry_count,
        row.seq,
        row.type,
        now,
        row.data,
    )


_READ = {name: from_array(name, kind) for name, kind in _EVENT.items()}
_APPEND = f"{inserted('sessions_app_sessionevent', _READ)} FROM {unnested(_EVENT)}"
_COPY = f"COPY sessions_app_sessionevent ({', '.join(_EVENT)}) FROM STDIN"


def events_append(writes: Writes, rows: Sequence[EventRow], *, now: datetime) -> None:
    """Write events with their numbers, in one statement; many are copied at once."""
    if not rows:
        return
    webhooks_after_commit()
    if to_log := [(level, row) for row in rows if logger.isEnabledFor(level := _level(row.type))]:
        transaction.on_commit(lambda: _log_events(to_log))
    if len(rows) >= COPIED:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.write(copy_text(_event(row, now) for row in rows))
    else:
        *values, data = zip(*(_event(row, now) for row in rows), strict=True)
        writes.add(_APPEND, [*map(array, values), json_array(data)])


def _level(event_type: str) -> int:
    """Return INFO for an attempt that ended without success, else DEBUG."""
    return logging.INFO if event_type in _FAILED else logging.DEBUG


def _log_events(rows: Sequence[tuple[int, EventRow]]) -> None:
    for level, row in rows:
        session = row.session
        extra = {
            "session_id": str(session.id),
            "root_session_id": str(session.root_id),
            "attempt": session.retry_count,
            "change": row.type,
        }
        logger.log(level, "session", extra=extra)
