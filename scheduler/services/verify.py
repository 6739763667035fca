"""Start verification: checks the pods of new runs until they run or have failed.

A check uses what the executor last reported, and only while the executor is heard. Reports of a
silent executor, or from before an outage of the server, do not describe the present.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from retry.evidence.causes import classify
from scheduler.core.pod_status import Progress, StartState, assess, evidence
from scheduler.core.start_checks import Again, Limits, Verdict, Watch, check
from scheduler.wire import Report
from sessions_app import wakeups
from sessions_app.core.states import Status
from sessions_app.db.bulk import SentRows, array
from sessions_app.db.steps import atomic_step
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.services.chains.settle import STATUS_MESSAGE_LENGTH
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 200
TASK = "scheduler.tasks.verify_starts"
HEARD_LENGTH = 400
MOST_CHECKS = 30_000
STARTING = frozenset({Status.PREPARING, Status.PULLING, Status.PREPARED, Status.CREATING})
_ON_ITS_NODE = frozenset({Progress.INITIALIZING, Progress.SUSPECT})


class Verified(NamedTuple):
    """The number of starts that one batch checked, and how many of them had failed."""

    claimed: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Row:
    """A lease whose check is due.

    `heard` says whether its executor was heard lately; `trouble` is what keeps the executor from
    seeing its pods.
    """

    session_id: UUID
    fencing_token: int
    watch: Watch
    pod: Any
    heard: bool
    trouble: str
    status_message: str


@dataclass(slots=True)
class _Outcome:
    """The changes that one batch writes."""

    again: list[tuple[UUID, Again]] = field(default_factory=list)
    over: list[UUID] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    failed: int = 0


def limits() -> Limits:
    """Return the limits of start checks from the settings."""
    values = settings.REPRISE
    return Limits(
        first=values["start_check_first"],
        again=values["start_check_again"],
        step=values["start_check_step"],
        longest=values["start_check_longest"],
        scheduling=values["scheduling_timeout"],
        initializing=values["initializing_timeout"],
        looks=int(values["missing_pod_checks"]),
        scale_up=values["scale_up_timeout"],
    )


class _Watched(NamedTuple):
    """A report that shows a pod."""

    session_id: UUID
    report: Report
    created_at: datetime
    progress: Progress


_PODS = SentRows[[_Watched]](
    ("id", "uuid", lambda seen: seen.session_id),
    ("token", "bigint", lambda seen: seen.report.fencing_token),
    ("created_at", "timestamptz", lambda seen: seen.created_at),
    ("starting", "boolean", lambda seen: seen.report.status in STARTING),
    ("hopeless", "boolean", lambda seen: seen.progress is Progress.FAILED),
    ("initializing", "boolean", lambda seen: seen.progress in _ON_ITS_NODE),
    ("pod", "jsonb", lambda seen: seen.report.pod if seen.report.status in STARTING else None),
    named=True,
)
# The pod's creation time is what its cluster says, but neither before its lease nor in the future:
# a wrong cluster clock cannot move a deadline further. A start that cannot succeed is checked at
# once, though never before the first check.
_WATCH = f"""
    UPDATE scheduler_lease l SET
        pod = w.pod::jsonb,
        pod_created_at = w.created_at,
        initializing_since = coalesce(
            l.initializing_since, CASE WHEN w.initializing THEN %(now)s::timestamptz END),
        verify_at = CASE
            WHEN NOT w.starting THEN NULL
            WHEN w.hopeless THEN least(coalesce(l.verify_at, w.first), greatest(w.first, %(now)s))
            ELSE coalesce(l.verify_at, w.first) END
    FROM (
        SELECT v.id, v.pod, v.starting, v.hopeless, v.initializing, c.created_at,
            least(
                c.created_at + make_interval(
                    secs => least(%(first)s, coalesce(p.scheduling_timeout, %(first)s))),
                CASE WHEN s.wait_deadline IS NOT NULL THEN greatest(
                    s.wait_deadline, c.created_at + make_interval(secs => %(again)s)) END
            ) AS first
        FROM {_PODS}
        JOIN scheduler_lease o ON o.session_id = v.id AND o.fencing_token = v.token
        JOIN sessions_app_session s ON s.id = v.id
        JOIN sessions_app_sessionspec p ON p.id = s.spec_id
        CROSS JOIN LATERAL (SELECT coalesce(o.pod_created_at,
            least(%(now)s::timestamptz, greatest(o.granted_at, v.created_at)))) c(created_at)
    ) w
    WHERE l.session_id = w.id
    RETURNING l.verify_at
"""


def starts_watch(reports: Mapping[UUID, Report], *, now: datetime) -> None:
    """Store the pods of reports on sessions that the caller has locked, by session id.

    The first report of a lease sets the time of the first check. A pod that runs or has ended needs
    no check.
    """
    if not reports:
        return
    seen = [
        _Watched(key, each, _created_at(each.pod) or now, assess(each.pod).progress)
        for key, each in reports.items()
    ]
    numbers: dict[str, Any] = {"first": limits().first, "again": limits().again, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_WATCH, {**_PODS.named(seen), **numbers})
        due = [row[0] for row in cursor.fetchall() if row[0] is not None]
    wakeups.due_after_commit(TASK, due, now=now)


def _created_at(pod: Any) -> datetime | None:
    metadata = pod.get("metadata")
    created = metadata.get("creationTimestamp") if isinstance(metadata, dict) else None
    try:
        moment = datetime.fromisoformat(created) if isinstance(created, str) else None
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment and moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def next_check() -> float | None:
    """Return the seconds until the next check is due; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM min(verify_at) - clock_timestamp())::float8"
            " FROM scheduler_lease"
        )
        row: tuple[float | None] = cursor.fetchone()
    return row[0]


_DUE = """
    SELECT session_id FROM scheduler_lease
    WHERE verify_at <= (SELECT clock_timestamp()) ORDER BY verify_at LIMIT %s
"""


def starts_verify() -> Verified:
    """Check one batch of the starts that are due; call again if it was full.

    If a start has failed, its session becomes TERMINATING and its executor is told to stop it. When
    the run then ends, its end is decided by the facts that are stored here.
    """
    with atomic_step("verify") as writes:
        with connection.cursor() as cursor:
            cursor.execute(_DUE, [BATCH])
            due = [row[0] for row in cursor.fetchall()]
        if not due:
            return Verified(0, 0)
        sessions = {each.id: each for each in lock_sessions(due, skip_locked=True)}
        now = database_now()
        outcome = _check_rows(sessions, _due_rows(list(sessions), now), now)
        _write(outcome)
        sessions_change(writes, outcome.changes, now=now)
        if outcome.failed:
            wakeups.work_after_commit()
        wakeups.due_after_commit(TASK, [each.at for _, each in outcome.again], now=now)
    return Verified(len(due), outcome.failed)


# Whoever writes these columns holds the session's lock, so the values cannot change here. Leases
# that another check has handled meanwhile are no longer due.
_ROWS = """
    SELECT l.session_id, l.fencing_token, l.pod_created_at, l.initializing_since,
        l.initializing_checks, l.unknown_checks, l.suspected, p.scheduling_timeout, s.wait_deadline,
        l.template, l.pod::text, e.last_seen_at >= %s - make_interval(secs => %s), e.trouble,
        s.status_message
    FROM scheduler_lease l
    JOIN scheduler_executor e ON e.id = l.executor_id
    JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    WHERE l.session_id = ANY(%s::uuid[]) AND l.verify_at <= %s
"""


def _due_rows(session_ids: Collection[UUID], now: datetime) -> list[_Row]:
    late_after = settings.REPRISE["executor_late_after"]
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [now, late_after, array(session_ids), now])
        return [_row(values, now) for values in cursor.fetchall()]


def _row(values: Sequence[Any], now: datetime) -> _Row:
    session_id, token, created_at, *watched, pod, heard, trouble, message = values
    watch = Watch(created_at or now, *watched)
    return _Row(session_id, token, watch, json.loads(pod or "null"), bool(heard), trouble, message)


def _check_rows(
    sessions: Mapping[UUID, LockedSession], rows: Sequence[_Row], now: datetime
) -> _Outcome:
    outcome, numbers = _Outcome(), limits()
    for row in rows:
        session = sessions[row.session_id]
        state = _state(row)
        found = check(state, row.watch, numbers, now)
        if session.fencing_token != row.fencing_token or session.status not in STARTING:
            outcome.over.append(session.id)
        elif not _is_so(row, state):
            found = Again(now + timedelta(seconds=numbers.again), row.watch)
            outcome.again.append((session.id, found))
        elif isinstance(found, Again):
            outcome.again.append((session.id, found))
            outcome.changes += _progress(session, row, state)
        else:
            outcome.over.append(session.id)
            if found is not None:
                outcome.changes.append(_failed(session, row, found, now))
                outcome.failed += 1
    return outcome


def _is_so(row: _Row, state: StartState) -> bool:
    """Return whether the state is still current: no start fails on facts that nobody can see."""
    return row.heard and (not row.trouble or state.progress is Progress.FAILED)


def _state(row: _Row) -> StartState:
    """Return the state of the pod, with the last Event that the executor passed on."""
    event = row.status_message[:HEARD_LENGTH].rstrip(". ")
    state = assess(row.pod, event)
    if state.progress is Progress.WAITING and row.watch.template:
        adds = f"it waits for its cluster to add a node of template {row.watch.template}"
        return replace(state, message=f"{adds}; {state.message}")
    if state.progress is not Progress.INITIALIZING or not event or state.message in event:
        return state
    return replace(state, message=f"{state.message} ({event})")


def _progress(session: LockedSession, row: _Row, state: StartState) -> list[Change]:
    """Return the event that says what the start waits for, unless there is a newer message."""
    message = state.message[:STATUS_MESSAGE_LENGTH]
    on_its_way = state.progress is Progress.INITIALIZING and row.status_message
    if on_its_way or message == row.status_message:
        return []
    return [Change(session, {"status_message": message}, [Event("session.progress")])]


def _failed(session: LockedSession, row: _Row, verdict: Verdict, now: datetime) -> Change:
    facts = evidence(row.pod, verdict.cause, row.status_message)
    message = verdict.message[:STATUS_MESSAGE_LENGTH]
    values = {
        "status": Status.TERMINATING,
        "terminating_at": now,
        "status_message": message,
        "start_failure": facts.to_json(),
    }
    facts_json = {"cause": classify(facts).value, "message": message}
    events = [
        Event("session.terminating", {"reason": message}),
        Event("session.start_failed", facts_json),
    ]
    return Change(session, values, events)


_CHECKS = SentRows[[UUID, Again]](
    ("id", "uuid", lambda session_id, _: session_id),
    ("at", "timestamptz", lambda _, again: again.at),
    ("since", "timestamptz", lambda _, again: again.watch.initializing_since),
    ("initializing", "smallint", lambda _, again: _counted(again.watch.initializing_checks)),
    ("unknown", "smallint", lambda _, again: _counted(again.watch.unknown_checks)),
    ("suspected", "boolean", lambda _, again: again.watch.suspected),
)
_AGAIN = f"""
    UPDATE scheduler_lease l SET verify_at = v.at, initializing_since = v.since,
        initializing_checks = v.initializing, unknown_checks = v.unknown, suspected = v.suspected
    FROM {_CHECKS} WHERE l.session_id = v.id
"""
_OVER = "UPDATE scheduler_lease SET verify_at = NULL, pod = NULL WHERE session_id = ANY(%s::uuid[])"


def _counted(checks: int) -> int:
    return min(checks, MOST_CHECKS)


def _write(outcome: _Outcome) -> None:
    with connection.cursor() as cursor:
        if outcome.again:
            cursor.execute(_AGAIN, _CHECKS.arrays(*zip(*outcome.again, strict=True)))
        if outcome.over:
            cursor.execute(_OVER, [array(outcome.over)])
