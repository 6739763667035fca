"""The sentence about a session now: what it waits for, where it runs, or why it ended.

Pure: takes a session as REST gives it, and gives words, times and links. Times stay times, so that
a page can count them down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from retry.explain.reasons import reason_words
from sessions_app.core.states import RetryState, Status

Facts = Mapping[str, Any]


class Moment(NamedTuple):
    """A time in a sentence: counted down (`until`), counted up (`since`) or past (`ago`)."""

    at: datetime
    kind: Literal["until", "since", "ago"]


class Link(NamedTuple):
    """Words that lead to a session."""

    session_id: UUID
    text: str


Part = str | Moment | Link
Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """A sentence in three parts: `head` and `clause` for lists, with `more` for the page.

    `tone` is the family of the head's colour: `waiting`, `good`, `bad`, or "" for none.
    """

    head: Parts
    clause: Parts = ()
    more: Parts = ()
    tone: Literal["waiting", "good", "bad", ""] = ""


def binding(
    session: Facts, newest: Facts | None = None, silence: tuple[str, datetime] | None = None
) -> Binding:
    """Return what binds a session; `newest` is the newest attempt of its chain, if it is known.

    `silence` is its executor and when that was last heard, if it is late with its heartbeat.
    `session` is a session of a list or a whole one; what lists leave out is not said.
    """
    if session.get("cancel_requested_at") and session.get("finished_at") is None:
        since = Moment(session["cancel_requested_at"], "ago")
        return Binding(("Stopping: the chain was cancelled ", since))
    state: Facts = session["retry_state"]
    ended = _ENDED.get(state["state"])
    if ended:
        return ended(session, state, newest)
    return _silent(*silence) if silence else _unfinished(session)


def _silent(executor: str, heard_at: datetime) -> Binding:
    head = (f"No word from executor {executor} for ", Moment(heard_at, "since"))
    more = ". The run may still go on there. If the silence lasts, it counts as lost"
    return Binding(head, more=(more,), tone="waiting")


def _unfinished(session: Facts) -> Binding:
    status, place = session["status"], _place(session)
    if status == Status.PENDING:
        why = session.get("pending_reason")
        if why and (session.get("why_pending") or {}).get("reason") == "dependencies":
            # No executor is asked for yet.
            return Binding((f"{why[:1].upper()}{why[1:]}",))
        return Binding(("Waiting for an executor",), more=(f": {why}",) if why else ())
    if status == Status.TERMINATING:
        asked = session.get("preempt_requested_at")
        head: Parts = ("Stopping: preempted ", Moment(asked, "ago")) if asked else ("Stopping",)
        return Binding(head, more=place)
    if session["started_at"]:
        return Binding(("Running for ", Moment(session["started_at"], "since")), more=place)
    return Binding(("Getting ready",), more=(f" ({status.lower()})", *place))


def _place(session: Facts) -> Parts:
    executor, node = session.get("executor"), session.get("node")
    on = f" on executor {executor}" if executor else ""
    return (f"{on}{', node ' if on else ' on node '}{node}",) if node else (on,) if on else ()


def _scheduled(session: Facts, state: Facts, _newest: Facts | None) -> Binding:
    due = state["due_at"]
    when: Parts = ("Retry ", Moment(due, "until")) if due else ("Retry soon",)
    return Binding(when, more=_asked_by(session, state), tone="waiting")


def _held(session: Facts, state: Facts, _newest: Facts | None) -> Binding:
    until = _HELD_UNTIL.get(state.get("held_for") or "switch", "")
    return Binding(("Retry held",), (until,) if until else (), _asked_by(session, state), "waiting")


def _parked(session: Facts, state: Facts, _newest: Facts | None) -> Binding:
    until: Parts = (": ends ", Moment(state["due_at"], "until")) if state["due_at"] else ()
    decide: Parts = (". Retry it or give it up",)
    return Binding(("Parked",), until, (*_asked_by(session, state), *decide), "waiting")


def _asked_by(session: Facts, state: Facts) -> Parts:
    why = reason_words(state["reason"]) if state["reason"] else ""
    return tuple(words for words in (f" because {why}" if why else "", _end(session)) if words)


def _retried(_session: Facts, state: Facts, newest: Facts | None) -> Binding:
    following = state["next_session_id"]
    head: Parts = ("Retried",)
    if following:
        head = ("Retried as ", Link(following, f"attempt {state['attempt'] + 2}"))
    if newest is None or newest["id"] == following:
        return Binding(head, more=(f", which is {newest['status']}",) if newest else ())
    link = Link(newest["id"], f"attempt {newest['attempt'] + 1}")
    return Binding(head, more=("; the newest is ", link, f", which is {newest['status']}"))


def _succeeded(_session: Facts, state: Facts, _newest: Facts | None) -> Binding:
    retries = state["attempt"]
    after = f" after {retries} retr{'y' if retries == 1 else 'ies'}" if retries else ""
    return Binding(("Succeeded",), more=(after,) if after else (), tone="good")


def _given_up(session: Facts, state: Facts, _newest: Facts | None) -> Binding:
    head = "Gave up" if state["state"] == RetryState.EXHAUSTED else "Not retried"
    why = f": {reason_words(state['reason'])}" if state["reason"] else ""
    return Binding((head,), (why,), (_end(session),), "bad")


def _cancelled(_session: Facts, _state: Facts, _newest: Facts | None) -> Binding:
    return Binding(("Cancelled",))


def _end(session: Facts) -> str:
    """Return the cause of the end: `. The cause is kernel nonzero exit, exit code 137`."""
    cause = str(session.get("retry_cause") or "").replace("_", " ")
    code = session.get("exit_code")
    exited = f", exit code {code}" if code else ""
    return f". The cause is {cause}{exited}" if cause else ""


_HELD_UNTIL = {
    "switch": " until retries are switched on again",
    "breaker": " until the breaker of its failure closes",
    "shared_budget": " until the retry budget that it shares has room",
}
_ENDED = {
    RetryState.SCHEDULED: _scheduled,
    RetryState.HELD: _held,
    RetryState.PARKED: _parked,
    RetryState.RETRIED: _retried,
    RetryState.SUCCEEDED: _succeeded,
    RetryState.EXHAUSTED: _given_up,
    RetryState.NOT_RETRIED: _given_up,
    RetryState.CANCELLED: _cancelled,
}
