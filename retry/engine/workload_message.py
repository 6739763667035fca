"""The wishes about its retry that a workload states in its termination message."""

import json
import math
from dataclasses import dataclass
from typing import Any

from retry.evidence.termination import Termination, clean_text, first_failed_container, message_tail

_KEYS = frozenset({"retry", "after", "category"})


@dataclass(frozen=True, slots=True)
class Voice:
    """A workload's wishes: whether to retry, the minimum delay in seconds, a category."""

    retry: bool = True
    after: float = 0.0
    category: str = ""


SILENCE = Voice()


def voice_of(termination: Termination) -> Voice:
    """Read `{"reprise": {"retry": false, "after": 120, "category": "x"}}`. Never raises.

    The message is that of the first failed container, or without containers the session's. If any
    part is malformed, the whole message counts as plain text without wishes.
    """
    container = first_failed_container(termination)
    message = termination.message if container is None else container.message or termination.message
    if '"reprise"' not in message:
        return SILENCE
    # Only the stored part counts, so that a simulation reads the same.
    message = message_tail(message)
    try:
        said = json.loads(message, parse_constant=_refuse, object_pairs_hook=_once)
        return _read(said["reprise"]) if isinstance(said, dict) else SILENCE
    except (ValueError, KeyError, RecursionError, OverflowError):
        return SILENCE


def _refuse(_constant: str) -> None:
    raise ValueError("not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _read(said: object) -> Voice:
    if not isinstance(said, dict) or not said.keys() <= _KEYS:
        return SILENCE
    retry, after, category = said.get("retry", True), said.get("after", 0), said.get("category", "")
    if not isinstance(retry, bool) or not isinstance(category, str):
        return SILENCE
    # JSON can contain characters that no database stores, and the trace stores the category.
    if clean_text(category) != category:
        return SILENCE
    if isinstance(after, bool) or not isinstance(after, int | float):
        return SILENCE
    seconds = float(after)
    if not math.isfinite(seconds) or seconds < 0:
        return SILENCE
    return Voice(retry, seconds, category)
