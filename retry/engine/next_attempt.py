"""The next attempt of a granted retry: its time, the node it avoids, its resources."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from retry.engine.case import Case, Verdict
from retry.engine.decision import TraceStep
from retry.engine.memory_growth import grown
from retry.evidence.causes import RetryCause
from retry.policies.backoff import DELAY_CEILING, Backoff, Delay, delay_of


def wait(case: Case, verdict: Verdict, backoff: Backoff, random: float) -> float:
    """Return the backoff in seconds, at least what the workload and the bounds ask for."""
    n = verdict.used or 0
    chain = case.chain
    delay = delay_of(
        backoff, n, session_id=chain.session_id, retry_count=chain.retry_count, random=random
    )
    bound = case.bounds.min_retry_delay
    floor = 0.0 if bound is None else min(bound.value, DELAY_CEILING)
    asked = min(case.workload_message.after, delay.cap)
    value = max(delay.value, asked, floor)
    case.trace.append(_delay_step(verdict, backoff, n, delay, floor, asked, value))
    return value


def _delay_step(
    verdict: Verdict,
    backoff: Backoff,
    n: int,
    delay: Delay,
    floor: float,
    asked: float,
    value: float,
) -> TraceStep:
    own = verdict.rule is not None and verdict.rule.backoff is not None
    return {
        "step": "delay",
        "source": verdict.rule.backoff_of if own and verdict.rule else "inline",
        "backoff": "exponential" if backoff.exponential else "fixed",
        "delay": backoff.delay,
        "multiplier": backoff.multiplier,
        "n": n,
        "base": delay.base,
        "jitter": backoff.jitter.value,
        "extra": delay.extra,
        "cap": delay.cap,
        "floor": floor,
        "asked": asked,
        "result": value,
    }


def due(case: Case, delay: float, now: datetime) -> datetime:
    """Return when the retry is due; after a preemption, counted from its first observation.

    A run whose end nobody confirmed gets at least its grace period.
    """
    chain = case.chain
    if chain.preempted_at is None or case.cause is not RetryCause.PREEMPTED:
        return now + timedelta(seconds=delay)
    seconds = delay if chain.confirmed else max(delay, chain.grace_period)
    at = max(now, chain.preempted_at + timedelta(seconds=seconds))
    case.note(
        "grace",
        at.isoformat(),
        preempted_at=chain.preempted_at.isoformat(),
        confirmed=chain.confirmed,
        grace_period=chain.grace_period,
    )
    return at


def avoided_node(case: Case, verdict: Verdict) -> str:
    """Return the node of the failed run if the rule or its policy avoids it, else ""."""
    node = case.facts.termination.node
    if verdict.rule is None or not verdict.rule.avoids_node or not node:
        return ""
    case.note("avoid_node", node)
    return node


def placement(case: Case, verdict: Verdict) -> Mapping[str, Any] | None:
    """Return where the next attempt runs, if the rule moves it to other hardware by now.

    All retries that the rule has ever paid count, also those that its limit has forgotten.
    """
    if verdict.rule is None or verdict.rule.placement is None:
        return None
    after, place = verdict.rule.placement
    number = case.chain.counters.get(verdict.rule.label, 0)
    moves = number >= after
    case.note("placement", "moved" if moves else "later", number=number, after=after, **place)
    return place if moves else None


def resources(case: Case, verdict: Verdict) -> Mapping[str, Any]:
    """Return the resources of the next attempt: the same, or more memory if the rule says so."""
    if verdict.rule is None or verdict.rule.growth is None:
        return case.chain.resources
    growth = verdict.rule.growth
    found = grown(case.chain.resources, growth, case.chain.memory_ceiling, case.chain.node_memory)
    if found is None:
        case.note("memory", "none")
        return case.chain.resources
    case.note("memory", found.now, was=found.was, factor=growth.factor, held_by=found.held_by)
    return found.resources
