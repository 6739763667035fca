"""Settle: a run has ended. One transaction writes the end and the decision with its reasons.
lock -> terminal state and event -> classify -> decide -> decision -> after commit, a hint.
One session or many take the same few statements.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.engine.decide import Decision
from retry.evidence.causes import RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.signature import Signature
from sessions_app import wakeups
from sessions_app.core.progress import Told, ended_progress
from sessions_app.core.states import FINAL_STATUSES, RetryState, Status
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession, lock_sessions_with
from sessions_app.services.chains.decider import KNOWN, Decider, Known
from sessions_app.services.chains.decisions import decision_fact, decisions_insert
from sessions_app.services.chains.signatures import failure_signatures
from sessions_app.services.write.transitions import Change, Event, fact, sessions_change

STATUS_MESSAGE_LENGTH = 1024
NODE_LENGTH = 253
_RETRY_EVENTS = {
    RetryState.SCHEDULED: "session.retry_scheduled",
    RetryState.HELD: "session.retry_postponed",
    RetryState.PARKED: "session.retry_parked",
    RetryState.EXHAUSTED: "session.retry_exhausted",
}


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run, and further values that are written with it."""

    termination: Termination
    message: str = ""
    """The message for people; if "", the termination's own words."""
    avoid_executor: bool = False
    confirmed: bool = True
    """Whether somebody saw the run's end; if not, it may live on for its grace period."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Additional facts of the event, such as `unfenced`."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the session, such as `report_seq`."""
    log_tail: str = field(default="", repr=False)
    """The end of the output of what failed first, for the failure's signature; it is not stored."""
    progress: Told | None = None
    """How far the run came; None if it told nothing."""


def sessions_settle(
    ends: dict[UUID, End], *, leased: Mapping[UUID, int] | None = None
) -> list[UUID]:
    """Settle sessions by id, except those already final. Return the ids that were settled.

    `leased`: expected fencing tokens; sessions with another token are skipped.
    """
    with atomic_step("settle") as writes:
        found, now, about = lock_sessions_with(list(ends), KNOWN)
        locked = [
            session
            for session in found
            if session.status not in FINAL_STATUSES
            and (leased is None or leased.get(session.id) == session.fencing_token)
        ]
        live = [(session, ends[session.id]) for session in locked]
        settle_locked(writes, live, now=now, known=Known.of(about, locked))
    return [session.id for session in locked]


def settle_locked(
    writes: Writes,
    ends: Sequence[tuple[LockedSession, End]],
    *,
    now: datetime,
    known: Known | None = None,
) -> dict[UUID, int]:
    """Settle sessions whose locks the caller's transaction holds and that are not final.

    `known` is what the caller has read of them. Return the number of each session's last event.
    """
    if not ends:
        return {}
    batch = [_Ending(session, end, _understood(session, end)) for session, end in ends]
    signatures = failure_signatures({e.session.id: (e.ended, e.end.log_tail) for e in batch})
    unconfirmed = {ending.session.id for ending in batch if not ending.end.confirmed}
    decider = Decider([e.session for e in batch], unconfirmed=unconfirmed, now=now, known=known)
    for ending in batch:
        ending.failure = signatures.get(ending.session.id)
        ending.progress = _progress(ending, now)
        ending.decision = decider.decide(
            ending.session, ending.ended, ending.failure, advanced=ending.advanced
        )
    changes = [_change(ending, now) for ending in batch]
    decisions = [
        decider.record(ending.session, ending.decision, ending.ended.termination, ending.avoided)
        for ending in batch
        if ending.decision is not None
    ]
    # One round trip; what they change of the counters of quotas goes last.
    with writes.together():
        sessions_change(writes, changes, now=now)
        decisions_insert(writes, decisions, now=now)
    wakeups.retries_due_after_commit(
        [new.decision.due_at for new in decisions if new.decision.state == "scheduled"], now=now
    )
    return {c.session.id: c.session.event_seq + len(c.events) for c in changes}


@dataclass(slots=True)
class _Ending:
    """A session that ends, and what is found out about it, step by step."""

    session: LockedSession
    end: End
    ended: Ended
    failure: Signature | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    """The progress of the run as it is stored; empty if the run told nothing."""
    decision: Decision | None = None
    """None after a success."""

    @property
    def advanced(self) -> bool:
        return bool(self.progress.get("advanced"))

    @property
    def avoided(self) -> str:
        """Return the executor that the next attempt avoids."""
        return self.session.executor if self.end.avoid_executor else ""


def _understood(session: LockedSession, end: End) -> Ended:
    """Return what the end means, completed with facts from the session's row."""
    ended, termination = Ended(end.termination), end.termination
    if session.cancel_requested_at:
        # Whoever cancels a chain wants it to end: a success or a lost run counts as cancelled, too.
        termination = replace(termination, status="cancelled")
    elif session.start_failure is not None and termination.status != "terminated":
        # Ignore how the stopped pod ended, unless it succeeded first.
        termination = Termination.from_json(json.loads(session.start_failure))
    elif session.preempt_requested_at and _only_gone(ended):
        # It was told to stop, and nobody saw it end in another way.
        conditions = (*termination.conditions, "Preempted")
        termination = replace(termination, conditions=conditions)
    if session.node and not termination.node:
        termination = replace(termination, node=session.node)
    return ended if termination is end.termination else Ended(termination)


def _only_gone(ended: Ended) -> bool:
    """Return whether all we know is that the run vanished."""
    return ended.termination.status == "error" and ended.cause is RetryCause.AGENT_TRANSIENT


def _progress(ending: _Ending, now: datetime) -> dict[str, Any]:
    told = ending.end.progress
    return {} if told is None else ended_progress(told, ending.session.best_before, now)


def _change(ending: _Ending, now: datetime) -> Change:
    session, ended, decision = ending.session, ending.ended, ending.decision
    failure = ending.failure
    values: dict[str, Any] = {
        "status": _status(ended.termination),
        "finished_at": now,
        "exit_code": ended.exit_code,
        "node": ended.termination.node[:NODE_LENGTH],
        "status_message": _end_message(ending),
        "retry_state": RetryState.SUCCEEDED.value,
        "retry_cause": "",
        "failure_category": "",
        "failure_signature": failure.key if failure else "",
        "failure_title": failure.title.replace("\0", "") if failure else "",
        "report_seq": session.report_seq,
        **ending.end.columns,
    }
    if ending.progress:
        values["progress"] = ending.progress
    facts = dict(ending.end.facts)
    events = [Event(f"session.{values['status'].lower()}", facts)]
    if decision is None:
        if session.retry_count:
            events.append(Event("session.retry_succeeded", {"attempts": session.retry_count + 1}))
        return Change(session, values, events)
    values["retry_state"] = decision.retry_state
    values["retry_cause"] = decision.cause.value
    values["failure_category"] = decision.failure_category
    if _has_message(session, values["status"], decision):
        del values["status_message"]
    facts["decision"] = decision_fact(decision)
    facts |= _further_facts(decision, failure)
    retry_event = _RETRY_EVENTS.get(RetryState(decision.retry_state))
    if retry_event:
        events.append(Event(retry_event, _retry_facts(decision)))
    return Change(session, values, events)


def _further_facts(decision: Decision, failure: Signature | None) -> dict[str, Any]:
    """Return what else the event of a failure tells: what holds its retry, and that its signature
    says too little to open a breaker."""
    held = {"held_for": decision.held_for, "held_key": decision.held_key}
    facts: dict[str, Any] = {name: value for name, value in held.items() if value}
    return facts | {"failure_generic": True} if failure and failure.generic else facts


def _has_message(session: LockedSession, status: Status, decision: Decision) -> bool:
    """Return whether the present message says more than the end does."""
    if status is Status.CANCELLED and session.status is Status.TERMINATING:
        return True  # it says who asked for the end
    if session.preempt_requested_at and decision.cause is RetryCause.PREEMPTED:
        return True  # it says who asked and why; the executor does not know that
    return session.start_failure is not None and status is Status.ERROR


def _retry_facts(decision: Decision) -> dict[str, Any]:
    facts: dict[str, Any] = {"reason": decision.reason, "cause": decision.cause.value}
    if decision.action != "retry" and decision.due_at is not None:
        facts |= {"until": fact(decision.due_at)}
    elif decision.due_at is not None:
        facts |= {"delay": decision.delay, "due_at": fact(decision.due_at)}
    return facts


def _status(termination: Termination) -> Status:
    if termination.status == "cancelled":
        return Status.CANCELLED
    return Status.TERMINATED if termination.status == "terminated" else Status.ERROR


def _end_message(ending: _Ending) -> str:
    if ending.end.message:
        return ending.end.message[:STATUS_MESSAGE_LENGTH]
    ended, termination = ending.ended, ending.ended.termination
    if termination.status == "terminated":
        return ""
    words = (termination.reason, termination.message or termination.pod_message)
    message = ": ".join(part for part in words if part)
    if not message and ended.exit_code is not None:
        message = f"exit code {ended.exit_code}"
    return (message or str(ended.cause))[:STATUS_MESSAGE_LENGTH]
