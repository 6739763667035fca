"""Reports of executors: the facts become statuses, each at most once, in bulk.

A report counts only from the executor that the session names. A report under a lease that its
executor held before is stale. Any other report is answered as if the session did not exist, so that
an executor can neither disturb the runs of others nor learn about them.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from pydantic import ValidationError

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.explain.endings import ending_message
from scheduler.core.pod_status import Progress, assess
from scheduler.services.executors import executor_check
from scheduler.services.ignored_reports import (
    MOST_IGNORED,
    former_leases,
    ignored_counts,
    ignored_event,
)
from scheduler.services.leases import leases_delete
from scheduler.services.progress import (
    KNOWN_AND_PROGRESS,
    Told,
    known_and_progress,
    progress_at_end,
)
from scheduler.services.verify import STARTING, starts_watch
from scheduler.wire import Outcome, Report
from sessions_app.core.states import EVENT_TYPES, FINAL_STATUSES, Status, is_allowed
from sessions_app.db.bulk import array
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession, lock_sessions_with
from sessions_app.models import Session
from sessions_app.services.chains.confirm import decisions_confirm
from sessions_app.services.chains.decider import Known
from sessions_app.services.chains.settle import STATUS_MESSAGE_LENGTH, End, settle_locked
from sessions_app.services.write.transitions import Change, Event, sessions_change

logger = logging.getLogger(__name__)

BATCH = 500
APPLIED, DUPLICATE, STALE, BUSY, INVALID = "applied", "duplicate", "stale", "busy", "invalid"
UNKNOWN = "there is no such session"
NOT_ITS_LEASE = "the lease is no longer the session's"
PROGRESS_EVENT = "session.progress"
MOST_OF_SESSION = 50
"""Maximum number of reports of one session in a call: each needs a turn of several statements."""
RUN_SLACK = timedelta(seconds=60)
"""Time after a run's own deadline until we assume that it has ended."""


@dataclass(slots=True)
class _Batch:
    """The state of one transaction that applies reports."""

    now: datetime
    known: Known | None
    """For decisions; None if no run has ended."""
    beside: Mapping[UUID, Told]
    """The progress beside the leases; none if no run has ended."""
    sessions: dict[UUID, LockedSession]
    existing: set[UUID]
    former: set[tuple[UUID, int]]
    """Sessions that this executor held before, with the fencing token of that lease."""
    ignored: dict[UUID, int] = field(default_factory=dict)
    """Number of ignored-report events of a session under its present lease; filled when needed."""
    accepted: list[UUID] = field(default_factory=list)
    settled: list[UUID] = field(default_factory=list)
    pods: dict[UUID, Report] = field(default_factory=dict)
    """The newest applied report of each session that shows a pod."""


def reports_apply(name: str, incarnation: int, raw: Sequence[Any]) -> list[Outcome]:
    """Apply reports of executor `name`. Return one outcome each, in their order.

    Raises `NotFound` for an unknown executor and `Conflict` for a superseded agent.
    """
    executor_check(name, incarnation)
    parsed = [_parse(name, item) for item in raw]
    answers = {i: item for i, item in enumerate(parsed) if isinstance(item, Outcome)}
    reports = {i: item for i, item in enumerate(parsed) if isinstance(item, Report)}
    answers |= _put_off(reports)
    positions = [i for i in reports if i not in answers]
    for start in range(0, len(positions), BATCH):
        part = {i: reports[i] for i in positions[start : start + BATCH]}
        answers |= _apply(name, part)
    return [answers[i] for i in range(len(raw))]


def _put_off(reports: Mapping[int, Report]) -> dict[int, Outcome]:
    """Answer `busy` for the reports of a session beyond `MOST_OF_SESSION`, by position."""
    counts = Counter(report.session_id for report in reports.values())
    if not counts or max(counts.values()) <= MOST_OF_SESSION:
        return {}
    taken: Counter[UUID] = Counter()
    answers = {}
    for position in sorted(reports, key=lambda i: _in_order(reports[i])):
        report = reports[position]
        taken[report.session_id] += 1
        if taken[report.session_id] > MOST_OF_SESSION:
            detail = f"a call applies {MOST_OF_SESSION} reports of one session"
            answers[position] = _outcome(report, BUSY, detail)
    return answers


def _apply(name: str, reports: Mapping[int, Report]) -> dict[int, Outcome]:
    answers: dict[int, Outcome] = {}
    with atomic_step("report") as writes:
        ids = {report.session_id for report in reports.values()}
        ends = any(report.status in FINAL_STATUSES for report in reports.values())
        about = KNOWN_AND_PROGRESS if ends else None
        found, now, value = lock_sessions_with(list(ids), about, skip_locked=True)
        known, beside = known_and_progress(value, found)
        locked = {session.id: session for session in found}
        missing = ids - locked.keys()
        others = [s.id for s in locked.values() if s.executor != name]
        existing = _existing(name, missing) if missing else set()
        # Whoever has a row may take the lease back meanwhile: the session was the executor's, then.
        gone = missing - existing
        former = former_leases(name, [*others, *gone]) if others or gone else set()
        batch = _Batch(
            now=now,
            known=known,
            beside=beside,
            sessions=locked,
            existing=existing | {session_id for session_id, _ in former if session_id in gone},
            former=former,
        )
        turns = list(_turns(reports))
        for turn in turns:
            answers.update(_apply_turn(writes, name, batch, turn, last=turn is turns[-1]))
        _accept(batch)
        starts_watch(batch.pods, now=batch.now)
        leases_delete(batch.settled)
    return answers


def _in_order(report: Report) -> tuple[int, int]:
    return report.fencing_token, report.seq


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


def _existing(name: str, ids: set[UUID]) -> set[UUID]:
    own = Session.objects.filter(pk__in=ids, executor=name)
    return set(own.values_list("pk", flat=True))


def _turns(reports: Mapping[int, Report]) -> Iterator[dict[int, Report]]:
    """Yield turns with at most one report of each session; a session's reports in their order."""
    queues: dict[UUID, list[tuple[int, Report]]] = defaultdict(list)
    for position, report in reports.items():
        queues[report.session_id].append((position, report))
    for queue in queues.values():
        queue.sort(key=lambda pair: _in_order(pair[1]))
    depth = max(len(queue) for queue in queues.values())
    for turn in range(depth):
        yield dict(queue[turn] for queue in queues.values() if turn < len(queue))


def _apply_turn(
    writes: Writes, name: str, batch: _Batch, turn: Mapping[int, Report], *, last: bool
) -> dict[int, Outcome]:
    changes: list[Change] = []
    ends: list[tuple[LockedSession, End]] = []
    confirmed: list[UUID] = []
    answers = {i: _outcome_of(name, batch, report) for i, report in turn.items()}
    stale = [turn[i].session_id for i, answer in answers.items() if answer.outcome == STALE]
    if unknown := [each for each in stale if each not in batch.ignored]:
        batch.ignored |= ignored_counts(unknown)
    for position, report in turn.items():
        session = batch.sessions.get(report.session_id)
        outcome, detail = answers[position].outcome, answers[position].detail
        if session is None or outcome not in {STALE, APPLIED}:
            continue
        noted = False
        if outcome == STALE:
            noted = batch.ignored[session.id] < MOST_IGNORED
            batch.ignored[session.id] += noted
            events = [ignored_event(report, detail)] if noted else []
            changes.append(Change(session, _numbered(session, report), events))
            if _confirms(name, session, report):
                confirmed.append(session.id)
        elif report.status in FINAL_STATUSES:
            ends.append((session, _end(report, batch.beside.get(session.id))))
        else:
            changes.append(_progress(session, report, batch.now))
            noted = _is_news(session, report)
        if outcome == APPLIED:
            _note(batch, session, report)
        # Copies are read by another turn, which most calls do not have, and by a confirmation.
        if not last or outcome == STALE:
            _remember(batch, session, report, outcome, noted=noted)
    sessions_change(writes, changes, now=batch.now)
    event_seqs = settle_locked(writes, ends, now=batch.now, known=batch.known)
    sure = [batch.sessions[each] for each in confirmed]
    event_seqs |= decisions_confirm(writes, sure, now=batch.now)
    for session_id, event_seq in () if last else event_seqs.items():
        batch.sessions[session_id] = batch.sessions[session_id]._replace(event_seq=event_seq)
    return answers


def _outcome_of(name: str, batch: _Batch, report: Report) -> Outcome:
    session = batch.sessions.get(report.session_id)
    if session is None and report.session_id in batch.existing:
        return _outcome(report, BUSY, "the session's row is locked just now")
    if session is None:
        return _outcome(report, INVALID, UNKNOWN)
    if session.executor == name:
        return _outcome(report, *_check(session, report))
    if (report.session_id, report.fencing_token) in batch.former:
        return _outcome(report, STALE, NOT_ITS_LEASE)
    return _outcome(report, INVALID, UNKNOWN)


def _outcome(report: Report, outcome: str, detail: str = "") -> Outcome:
    return Outcome(
        session_id=str(report.session_id),
        fencing_token=report.fencing_token,
        seq=report.seq,
        outcome=outcome,
        detail=detail,
    )


def _check(session: LockedSession, report: Report) -> tuple[str, str]:
    """Return the outcome of the named executor's report, and why. The token comes before `seq`."""
    if report.fencing_token != session.fencing_token:
        return STALE, NOT_ITS_LEASE
    if report.seq <= session.report_seq:
        return DUPLICATE, ""
    if session.status in FINAL_STATUSES:
        return STALE, f"the session is {session.status.value}"
    if report.status == session.status or is_allowed(session.status, report.status):
        return APPLIED, ""
    return STALE, f"the session is {session.status.value} already"


def _confirms(name: str, session: LockedSession, report: Report) -> bool:
    """Return whether the report confirms the end of a run that was settled without it."""
    own = report.fencing_token == session.fencing_token and session.executor == name
    return own and session.status in FINAL_STATUSES and report.status in FINAL_STATUSES


def _numbered(session: LockedSession, report: Report) -> dict[str, Any]:
    """Return the new report number; reports of the current lease count even if they are ignored."""
    if report.fencing_token != session.fencing_token or session.status in FINAL_STATUSES:
        return {}
    return {"report_seq": max(report.seq, session.report_seq)}


def _progress(session: LockedSession, report: Report, now: datetime) -> Change:
    values: dict[str, Any] = {"report_seq": report.seq}
    facts = {"at": report.at, "fencing_token": report.fencing_token}
    if report.status == session.status and not _is_news(session, report):
        return Change(session, values)
    message = _status_message(report)[:STATUS_MESSAGE_LENGTH]
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


def _status_message(report: Report) -> str:
    """Return what the session is doing or waits for; a failed start in the words of its end."""
    if report.pod is None or report.status not in STARTING:
        return report.message
    state = assess(report.pod)
    if state.progress is Progress.FAILED:
        return state.verdict
    if state.progress is Progress.INITIALIZING and report.message:
        return report.message
    return state.message


def _is_news(session: LockedSession, report: Report) -> bool:
    """Return whether the report has another status, or a message about a run that is not stopping.

    A run that is being stopped keeps the message that says why.
    """
    if report.status != session.status:
        return True
    return bool(report.message) and report.status is not Status.TERMINATING


def _end(report: Report, beside: Told | None) -> End:
    succeeded = report.status is Status.TERMINATED
    reported = Termination.from_json(report.termination)
    # Facts that the termination lacks, or that cannot be read, come from the report around it.
    exit_code = reported.exit_code if reported.exit_code is not None else report.exit_code
    facts: dict[str, Any] = {
        "status": "terminated" if succeeded else "error",
        "exit_code": 0 if succeeded and exit_code is None else exit_code,
        "node": reported.node or report.node,
    }
    # A copy is dear, and most terminations are whole.
    lacking = {name: value for name, value in facts.items() if getattr(reported, name) != value}
    termination = replace(reported, **lacking) if lacking else reported
    # The facts of a pod describe its end, not an earlier message.
    message = report.message
    of_a_pod = report.termination is not None and "pod" in report.termination
    if of_a_pod and not succeeded and not reported.lease_expired:
        message = ending_message(Ended(termination))
    # Nobody saw the run stop on a node that is gone.
    unfenced = report.termination is not None and report.termination.get("unfenced") is True
    return End(
        termination,
        message=message,
        avoid_executor=reported.lease_expired,
        confirmed=not unfenced,
        facts={
            "at": report.at,
            "fencing_token": report.fencing_token,
            **({"unfenced": True} if unfenced else {}),
        },
        columns={"report_seq": report.seq},
        log_tail=report.log_tail,
        progress=progress_at_end(report.progress, beside),
    )


def _note(batch: _Batch, session: LockedSession, report: Report) -> None:
    """Note what the applied report says about the session's lease and its pod."""
    if session.accepted_at is None:
        batch.accepted.append(session.id)
    if report.pod is not None:
        batch.pods[session.id] = report
    if report.status in FINAL_STATUSES:
        batch.settled.append(session.id)


def _remember(
    batch: _Batch, session: LockedSession, report: Report, outcome: str, *, noted: bool
) -> None:
    """Update the copy of the row for the next turn; `noted` says that the session got an event."""
    if outcome == APPLIED and report.status in FINAL_STATUSES:
        batch.sessions[session.id] = session._replace(status=report.status, report_seq=report.seq)
        return
    # One copy of the row only, since it has many fields.
    values: dict[str, Any] = {}
    if noted:
        values["event_seq"] = session.event_seq + 1
    if outcome == APPLIED:
        values |= {
            "status": report.status,
            "report_seq": report.seq,
            "node": report.node or session.node,
            "accepted_at": session.accepted_at or batch.now,
        }
    else:
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
            cursor.execute(_ACCEPT, [batch.now + RUN_SLACK, array(batch.accepted)])
