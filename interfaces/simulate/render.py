"""Renders a simulation as JSON text in pieces, so that the whole answer is never in memory."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from retry.engine.decision import Decision
from retry.simulate import HOLDS, Attempt, Outcome

PIECE = 64 * 1024
"""Least characters of a piece."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


def simulation_text(
    simulated: Iterable[Attempt | Outcome], summary: Callable[[], dict[str, Any]], *, chains: bool
) -> Iterator[bytes]:
    """Yield `{"chains": [...], "summary": {...}}`; `summary` is called after the last chain.

    Without `chains` the list is empty and only the sums are given.
    """
    pieces: list[str] = []
    size = 0
    for text in _answer(simulated, summary, chains):
        pieces.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(pieces).encode()
            pieces.clear()
            size = 0
    yield "".join(pieces).encode()


def _answer(
    simulated: Iterable[Attempt | Outcome], summary: Callable[[], dict[str, Any]], chains: bool
) -> Iterator[str]:
    yield '{"chains":['
    if chains:
        yield from _chains(simulated)
    else:
        for _ in simulated:
            pass
    yield f'],"summary":{_encode(summary())}}}'


def _chains(simulated: Iterable[Attempt | Outcome]) -> Iterator[str]:
    comma, inside = "", False
    for each in simulated:
        if not inside:
            yield f'{comma}{{"attempts":['
        if isinstance(each, Outcome):
            yield f'],"outcome":"{each.name}"}}'
            comma, inside = ",", False
        else:
            yield f"{',' if inside else ''}{_encode(simulated_json(each))}"
            inside = True


def simulated_json(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt and the decision about its end."""
    decision = attempt.decision
    if decision is None:
        return {"attempt": attempt.number, "session_id": attempt.session_id, **_SUCCEEDED}
    return {
        "attempt": attempt.number,
        "session_id": attempt.session_id,
        "cause": decision.cause.value,
        "failure_category": decision.failure_category or None,
        "failure_signature": attempt.signature or None,
        "failure_title": attempt.title or None,
        "action": decision.action,
        "reason": decision.reason,
        "rule": decision.rule,
        "paid_by": decision.paid_by,
        "used": decision.used,
        "limit": decision.limit,
        "delay": decision.delay,
        "avoid_node": decision.avoid_node or None,
        "resources": decision.resources,
        "placement": decision.placement,
        "trace": decision.trace,
        **(_held(attempt, decision) if decision.held_for in HOLDS else {}),
    }


def _held(attempt: Attempt, decision: Decision) -> dict[str, Any]:
    return {"held_for": decision.held_for, "held_seconds": attempt.held_seconds}


_SUCCEEDED: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("cause", "failure_category", "failure_signature", "failure_title", "action"),
            *("reason", "rule", "paid_by", "used"),
            *("limit", "delay", "avoid_node", "resources", "placement"),
        )
    ),
    "trace": [],
}
