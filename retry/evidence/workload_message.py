"""The wishes about its retry that a workload states in its termination message."""

import json
import math
from dataclasses import dataclass
from typing import Any

from retry.evidence.termination import clean_text, message_tail

_KEYS = frozenset({"retry", "after", "category"})


@dataclass(frozen=True, slots=True)
class WorkloadMessage:
    """A workload's wishes: whether to retry, the minimum delay in seconds, a category."""

    retry: bool = True
    after: float = 0.0
    category: str = ""


NO_MESSAGE = WorkloadMessage()


def workload_message_in(message: str) -> WorkloadMessage:
    """Read `{"reprise": {"retry": false, "after": 120, "category": "x"}}`. Never raises.

    If any part is malformed, the whole message counts as plain text without wishes.
    """
    if '"reprise"' not in message:
        return NO_MESSAGE
    # Only the stored part counts, so that a simulation reads the same.
    message = message_tail(message)
    try:
        parsed = json.loads(message, parse_constant=_refuse, object_pairs_hook=_once)
        return _read(parsed["reprise"]) if isinstance(parsed, dict) else NO_MESSAGE
    except (ValueError, KeyError, RecursionError, OverflowError):
        return NO_MESSAGE


def _refuse(_constant: str) -> None:
    raise ValueError("not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _read(wishes: object) -> WorkloadMessage:
    if not isinstance(wishes, dict) or not wishes.keys() <= _KEYS:
        return NO_MESSAGE
    retry, after, category = (
        wishes.get("retry", True),
        wishes.get("after", 0),
        wishes.get("category", ""),
    )
    if not isinstance(retry, bool) or not isinstance(category, str):
        return NO_MESSAGE
    # JSON can contain characters that no database stores, and the trace stores the category.
    if clean_text(category) != category:
        return NO_MESSAGE
    if isinstance(after, bool) or not isinstance(after, int | float):
        return NO_MESSAGE
    seconds = float(after)
    if not math.isfinite(seconds) or seconds < 0:
        return NO_MESSAGE
    return WorkloadMessage(retry, seconds, category)
