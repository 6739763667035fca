"""Sessions and retries in words for people. Pure: `now` is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import reprise_client
from reprise_client.cli.reasons import REFUSALS, RETRY_REASONS

if TYPE_CHECKING:
    from reprise_client.models import Attempt, Decision, RetryState, Session

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

SWITCHES = {"paused": "retries are paused", "off": "retries are switched off"}


def span(seconds: float) -> str:
    """Return `42 s`, `3 min 20 s` or `2 h 5 min`; two units are enough to plan by."""
    left = max(0, round(seconds))
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def counted(number: int, noun: str) -> str:
    """Return `1 lease` or `2,000 leases`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clock(moment: datetime, now: datetime) -> str:
    """Return the time of day in the zone of `now`, with the date unless it is the same day."""
    local = moment.astimezone(now.tzinfo)
    return local.strftime("%H:%M:%S" if local.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def when(moment: datetime | None, now: datetime) -> str:
    """Return `3 min 20 s ago (14:03:10)`; empty for None."""
    if moment is None:
        return ""
    exact = clock(moment, now)
    if moment > now + timedelta(seconds=1):
        return f"in {span((moment - now).total_seconds())} ({exact})"
    return f"{span((now - moment).total_seconds())} ago ({exact})"


def attempt_of(state: RetryState, *, ahead: int = 0) -> str:
    """Return `attempt 2`, counted from 1; `ahead=1` is the next one."""
    return f"attempt {state.attempt + 1 + ahead}"


def attempt_summary(state: RetryState) -> str:
    """Return the server's summary, such as `attempt 3; 2 of 2 retries for failures used`."""
    return state.summary or attempt_of(state)


def outcome(session: Session | Attempt) -> str:
    """Return how an attempt ended: `failed: kernel_nonzero_exit, exit code 3, on node-a`."""
    if session.status == "TERMINATED":
        return "succeeded"
    if session.status == "CANCELLED":
        return "was cancelled"
    cause = session.retry_cause if isinstance(session, reprise_client.Session) else session.cause
    facts = [cause or "unknown"]
    if session.failure_category:
        facts.append(f"category {session.failure_category}")
    if isinstance(session, reprise_client.Session) and session.failure_signature:
        facts.append(f"signature {session.failure_signature}")
    if session.exit_code is not None:
        facts.append(f"exit code {session.exit_code}")
    if session.node:
        facts.append(f"on {session.node}")
    return f"failed: {', '.join(facts)}"


def reason(word: str | None) -> str:
    """Return a decision's reason as a clause; an unknown word stays as it is."""
    known = RETRY_REASONS | REFUSALS
    return known.get(word or "", word or "no reason is given")


def what_next(
    session: Session, decision: Decision | None, now: datetime, switch: str | None = None
) -> str:
    """Return what follows this attempt and when; empty while it runs and has no further retry.

    `switch` is the mode that holds back its project's retries, if known.
    """
    state = session.retry_state
    following = attempt_of(state, ahead=1)
    match state.state:
        case "scheduled":
            text = f"{following} {_due(state, decision, now)}{_because(session, decision)}"
        case "held":
            why = _held_while(state, decision, switch)
            text = f"{following} is held while {why}{_because(session, decision)}"
        case "parked":
            until = f" until {clock(state.due_at, now)}" if state.due_at else ""
            text = f"parked{until}, because {reason(state.reason)}: retry it or give it up"
        case "retried":
            text = f"{following} is {state.next_session_id or 'on its way'}"
        case "succeeded":
            text = "nothing, it succeeded"
        case "cancelled":  # also for a failed attempt whose retry was still waiting
            text = "nothing, it was cancelled"
        case "exhausted" | "not_retried":
            text = f"no retry, because {reason(state.reason)}"
            text += f" ({state.rule})" if state.rule else ""
        case _:
            text = _if_it_fails(session)
    return text


def _held_while(state: RetryState, decision: Decision | None, switch: str | None) -> str:
    match state.held_for or (decision and decision.held_for):
        case "breaker":
            return "the breaker of its failure is open"
        case "shared_budget":
            return "the retry budget that it shares is spent"
        case _:
            return SWITCHES.get(switch or "", "retries are paused or switched off")


def _due(state: RetryState, decision: Decision | None, now: datetime) -> str:
    if state.due_at is None:
        return "is scheduled"
    at = clock(state.due_at, now)
    if state.due_at <= now:
        return f"is due since {at}"
    left = f"in {span((state.due_at - now).total_seconds())}"
    if decision is not None and decision.paced:
        return f"is postponed by the storm limit to {at} ({left})"
    return f"{left} ({at})"


def _because(session: Session, decision: Decision | None) -> str:
    text = f", because {session.failure_category or session.retry_cause or 'it failed'}"
    if decision is None:
        return text
    if decision.requested_by:
        text = f", asked for by {decision.requested_by}"
    return f"{text}; pays {payment(decision)}" if decision.paid_by else text


def avoided(decision: Decision | None) -> str:
    """Return the node that the next attempt avoids, or ""."""
    if decision is None or not decision.avoid_node:
        return ""
    at = f" of {decision.avoid_executor}" if decision.avoid_executor else ""
    return f"node {decision.avoid_node}{at}"


def granted(decision: Decision | None, had: Mapping[str, Any] | None = None) -> str:
    """Return the next attempt's changed resources, compared to `had`: `memory 1Gi -> 2Gi`."""
    if decision is None or decision.resources is None:
        return ""
    if had is None:
        return resource_words(decision.resources)
    before, after = _flat(had), _flat(decision.resources)
    # A plain amount is both the request and the limit.
    old = {name: before.get(name) or before.get(name.partition(" ")[2], "none") for name in after}
    changes = (name for name in after if after[name] != old[name])
    return ", ".join(f"{name} {old[name]} -> {after[name]}" for name in changes)


def resource_words(resources: Mapping[str, Any]) -> str:
    """Return `cpu=1, memory=1Gi`; requests and limits are named if they are separate."""
    return ", ".join(f"{name}={amount}" for name, amount in _flat(resources).items())


def _flat(resources: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in resources.items():
        if isinstance(value, Mapping):
            found |= {f"{name} {key}": str(amount) for key, amount in value.items()}
        else:
            found[name] = str(value)
    return found


def payment(decision: Decision) -> str:
    """Return the budget that pays, and the number of this retry in it, from 1."""
    limit = "" if decision.limit is None else f" of {decision.limit}"
    return f"{decision.paid_by} {(decision.used or 0) + 1}{limit}"


def _if_it_fails(session: Session) -> str:
    state = session.retry_state
    if session.final:
        return ""
    last = state.max_attempts is not None and state.max_attempts <= state.attempt + 1
    return "" if last else "if it fails, it may be retried"


def next_in_brief(session: Session, now: datetime) -> str:
    """Return what follows, for one cell of a table."""
    state = session.retry_state
    if state.state == "scheduled" and state.due_at is not None:
        return f"retry in {span((state.due_at - now).total_seconds())}"
    return "" if state.state in {"none", "succeeded"} else state.state.replace("_", " ")
