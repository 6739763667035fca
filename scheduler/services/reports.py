"""Reports of executors: facts become states, each at most once, in bulk."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from pydantic import ValidationError

from retry.evidence import Termination
from scheduler.pod_status import Progress, assess
from scheduler.services.executors import executor_check
from scheduler.services.leases import leases_delete
from scheduler.services.verify import STARTING, starts_watch
from scheduler.wire import Outcome, Report
from sessions_app.failpoints import atomic_step
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.models import Session
from sessions_app.services.grace import decisions_confirm
from sessions_app.services.settle import STATUS_MESSAGE_LENGTH, End, settle_locked
from sessions_app.services.transitions import Change, Event, sessions_change
from sessions_app.states import EVENT_TYPES, FINAL_STATUSES, LIVE_STATUSES, Status, is_allowed

logger = logging.getLogger(__name__)

BATCH = 500
APPLIED, DUPLICATE, STALE, BUSY, INVALID = "applied", "duplicate", "stale", "busy", "invalid"
PROGRESS_EVENT = "session.progress"
IGNORED_EVENT = "session.report_ignored"
RUN_SLACK = timedelta(seconds=60)
"""Added to a run's own deadline before it is believed to be over."""
_ORDER = {status: position for position, status in enumerate(LIVE_STATUSES)}


@dataclass(slots=True)
class _Batch:
    """The state of one transaction's work on reports."""

    now: datetime
    sessions: dict[UUID, LockedSession]
    existing: set[UUID]
    accepted: list[UUID] = field(default_factory=list)
    settled: list[UUID] = field(default_factory=list)
    pods: dict[UUID, Report] = field(default_factory=dict)
    """The newest report of each session that shows a pod."""


def reports_apply(name: str, incarnation: int, raw: Sequence[Any]) -> list[Outcome]:
    """Apply reports of executor `name`; one outcome each, in their order.

    Raises `NotFound` for an unknown executor and `Conflict` for a superseded agent.
    """
    executor_check(name, incarnation)
    outcomes: list[Outcome] = []
    for start in range(0, len(raw), BATCH):
        outcomes.extend(_apply(name, raw[start : start + BATCH]))
    return outcomes


def _apply(name: str, raw: Sequence[Any]) -> list[Outcome]:
    parsed = [_parse(name, item) for item in raw]
    reports = {i: item for i, item in enumerate(parsed) if isinstance(item, Report)}
    answers = {i: item for i, item in enumerate(parsed) if isinstance(item, Outcome)}
    if not reports:
        return [answers[i] for i in range(len(raw))]
    with atomic_step("report"):
        ids = {report.session_id for report in reports.values()}
        locked = {s.id: s for s in lock_sessions(sorted(ids), skip_locked=True)}
        missing = ids - locked.keys()
        batch = _Batch(database_now(), locked, _existing(missing) if missing else set())
        for turn in _turns(reports):
            answers.update(_apply_turn(name, batch, turn))
        _accept(batch)
        starts_watch(batch.pods, now=batch.now)
        leases_delete(batch.settled)
    return [answers[i] for i in range(len(raw))]


def _parse(name: str, item: Any) -> Report | Outcome:
    try:
        return Report.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{'.'.join(map(str, first['loc'])) or 'report'}: {first['msg']}"
        logger.warning("executor %s sent an invalid report: %s", name, detail)
        known = item if isinstance(item, dict) else {}
        session_id, token, seq = (known.get(k) for k in ("session_id", "fencing_token", "seq"))
        return Outcome(
            session_id=session_id if isinstance(session_id, str) else None,
            fencing_token=token if isinstance(token, int) else None,
            seq=seq if isinstance(seq, int) else None,
            outcome=INVALID,
            detail=detail,
        )


def _existing(ids: set[UUID]) -> set[UUID]:
    return set(Session.objects.filter(pk__in=ids).values_list("pk", flat=True))


def _turns(reports: Mapping[int, Report]) -> Iterator[dict[int, Report]]:
    """Reports in turns with at most one of each session, those of a session by `seq`."""
    queues: dict[UUID, list[tuple[int, Report]]] = defaultdict(list)
    for position, report in reports.items():
        queues[report.session_id].append((position, report))
    for queue in queues.values():
        queue.sort(key=lambda pair: (pair[1].fencing_token, pair[1].seq))
    depth = max(len(queue) for queue in queues.values())
    for turn in range(depth):
        yield dict(queue[turn] for queue in queues.values() if turn < len(queue))


def _apply_turn(name: str, batch: _Batch, turn: Mapping[int, Report]) -> dict[int, Outcome]:
    changes: list[Change] = []
    ends: list[tuple[LockedSession, End]] = []
    confirmed: list[UUID] = []
    answers: dict[int, Outcome] = {}
    for position, report in turn.items():
        session = batch.sessions.get(report.session_id)
        if session is None:
            answers[position] = _absent(report, batch)
            continue
        outcome, detail = _judge(name, session, report)
        answers[position] = _outcome(report, outcome, detail)
        if outcome == STALE:
            changes.append(_ignored(session, report, detail))
            if _confirms(name, session, report):
                confirmed.append(session.id)
        elif outcome == APPLIED and report.status in FINAL_STATUSES:
            ends.append((session, _end(report)))
        elif outcome == APPLIED:
            changes.append(_progress(session, report, batch.now))
        _remember(batch, session, report, outcome)
    sessions_change(changes, now=batch.now)
    told = settle_locked(ends, now=batch.now)
    told |= decisions_confirm([batch.sessions[each] for each in confirmed], now=batch.now)
    for session_id, event_seq in told.items():
        batch.sessions[session_id] = batch.sessions[session_id]._replace(event_seq=event_seq)
    return answers


def _absent(report: Report, batch: _Batch) -> Outcome:
    if report.session_id in batch.existing:
        return _outcome(report, BUSY, "the session's row is locked just now")
    return _outcome(report, INVALID, "there is no such session")


def _outcome(report: Report, outcome: str, detail: str = "") -> Outcome:
    return Outcome(
        session_id=str(report.session_id),
        fencing_token=report.fencing_token,
        seq=report.seq,
        outcome=outcome,
        detail=detail,
    )


def _judge(name: str, session: LockedSession, report: Report) -> tuple[str, str]:
    """What becomes of a report, and why; the token is looked at before the number."""
    if report.fencing_token != session.fencing_token or session.executor != name:
        return STALE, "the lease is no longer the session's"
    if report.seq <= session.report_seq:
        return DUPLICATE, ""
    if session.status in FINAL_STATUSES:
        return STALE, f"the session is {session.status.value}"
    if report.status == session.status or is_allowed(session.status, report.status):
        return APPLIED, ""
    return STALE, f"the session is {session.status.value} already"


def _ignored(session: LockedSession, report: Report, detail: str) -> Change:
    told = {
        "reason": detail,
        "report": {
            "status": report.status.value,
            "seq": report.seq,
            "fencing_token": report.fencing_token,
        },
    }
    return Change(session, _numbered(session, report), [Event(IGNORED_EVENT, told)])


def _confirms(name: str, session: LockedSession, report: Report) -> bool:
    """Whether the report tells the end of a run that was settled without it."""
    own = report.fencing_token == session.fencing_token and session.executor == name
    return own and session.status in FINAL_STATUSES and report.status in FINAL_STATUSES


def _numbered(session: LockedSession, report: Report) -> dict[str, Any]:
    """Reports of the lease that counts are numbered, also those that are ignored."""
    if report.fencing_token != session.fencing_token or session.status in FINAL_STATUSES:
        return {}
    return {"report_seq": max(report.seq, session.report_seq)}


def _progress(session: LockedSession, report: Report, now: datetime) -> Change:
    values: dict[str, Any] = {"report_seq": report.seq}
    facts = {"at": report.at, "fencing_token": report.fencing_token}
    if report.status == session.status and not _is_news(session, report):
        return Change(session, values)
    message = _told(report)[:STATUS_MESSAGE_LENGTH]
    if report.status == session.status:
        values["status_message"] = message
        return Change(session, values, [Event(PROGRESS_EVENT, facts)])
    values["status"] = report.status
    if report.node:
        values["node"] = report.node
    if message or report.pod is not None:
        values["status_message"] = message
    if session.accepted_at is None:
        values["accepted_at"] = now
    if report.status is Status.RUNNING:
        values["started_at"] = now
    if report.status is Status.TERMINATING:
        values["terminating_at"] = now
    return Change(session, values, [Event(EVENT_TYPES[report.status], facts)])


def _told(report: Report) -> str:
    """What it is doing or waits for. What may end its start is said as the end would say it."""
    if report.pod is None or report.status not in STARTING:
        return report.message
    state = assess(report.pod)
    if state.progress is Progress.FAILED:
        return state.verdict
    if state.progress is Progress.INITIALIZING and report.message:
        return report.message
    return state.message


def _is_news(session: LockedSession, report: Report) -> bool:
    """Whether it tells more than it did: another status, or what it is doing or waits for.

    What is being stopped goes on saying why.
    """
    if report.status != session.status:
        return True
    return bool(report.message) and report.status is not Status.TERMINATING


def _end(report: Report) -> End:
    succeeded = report.status is Status.TERMINATED
    said = Termination.from_json(report.termination)
    # What the termination does not say, or says in a form that cannot be read, is taken from the
    # report around it.
    exit_code = said.exit_code if said.exit_code is not None else report.exit_code
    termination = replace(
        said,
        status="terminated" if succeeded else "error",
        exit_code=0 if succeeded and exit_code is None else exit_code,
        node=said.node or report.node,
    )
    # A node that is gone has stopped nothing that anybody saw.
    unfenced = report.termination is not None and report.termination.get("unfenced") is True
    return End(
        termination,
        message=report.message,
        avoid_executor=said.lease_expired,
        confirmed=not unfenced,
        facts={
            "at": report.at,
            "fencing_token": report.fencing_token,
            **({"unfenced": True} if unfenced else {}),
        },
        columns={"report_seq": report.seq},
    )


def _remember(batch: _Batch, session: LockedSession, report: Report, outcome: str) -> None:
    """Bring the copy of the row up to date for the next turn."""
    if outcome == APPLIED and session.accepted_at is None:
        batch.accepted.append(session.id)
    if outcome == APPLIED and report.pod is not None:
        batch.pods[session.id] = report
    if outcome == APPLIED and report.status in FINAL_STATUSES:
        batch.settled.append(session.id)
        batch.sessions[session.id] = session._replace(status=report.status, report_seq=report.seq)
        return
    # One copy: a row has many fields.
    values: dict[str, Any] = {}
    if outcome == STALE or (outcome == APPLIED and _is_news(session, report)):
        values["event_seq"] = session.event_seq + 1
    if outcome == APPLIED:
        values |= {
            "status": report.status,
            "report_seq": report.seq,
            "node": report.node or session.node,
            "accepted_at": session.accepted_at or batch.now,
        }
    elif outcome == STALE:
        values |= _numbered(session, report)
    if values:
        batch.sessions[session.id] = session._replace(**values)


_ACCEPT = """
    UPDATE scheduler_lease l SET accepted = true, run_deadline = %s + make_interval(
        secs => p.batch_timeout + p.termination_grace_period)
    FROM sessions_app_session s JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    WHERE s.id = l.session_id AND l.session_id = ANY(%s::uuid[])
"""


def _accept(batch: _Batch) -> None:
    if batch.accepted:
        with connection.cursor() as cursor:
            cursor.execute(_ACCEPT, [batch.now + RUN_SLACK, batch.accepted])
