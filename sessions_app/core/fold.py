"""Folding: the state of a session at any moment, from its events alone. Pure.

Each event's `data` holds the new values of the facts that it changed, so folding overwrites them
one after another. The decision is a fact, too; a later event may change a part of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sessions_app.core.columns import SESSION

FACTS = tuple(name for name, column in SESSION.items() if column.fact)
"""The columns of a session that its events rebuild."""

DECISION_FACTS = (
    "state",
    "action",
    "reason",
    "cause",
    "rule",
    "paid_by",
    "used",
    "limit",
    "delay",
    "due_at",
    "next_session_id",
    "dispatched_by",
)


def fold(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts after `events`, the `data` of one session's events in order of `seq`.

    The result has the keys of `FACTS` that ever had a value, and `decision` (of `DECISION_FACTS`)
    if there was one. Other keys are ignored.
    """
    state: dict[str, Any] = {}
    for data in events:
        state.update((key, data[key]) for key in FACTS if key in data)
        if "decision" in data:
            state["decision"] = {**state.get("decision", {}), **data["decision"]}
    return state
