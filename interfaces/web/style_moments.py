"""Moments in the lives of made-up chains, for the page of all parts: their timeline and log."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from interfaces.web.session_log import LogLink, LogWanted
from interfaces.web.terminal import terminal_lines
from sessions_app.core.chain_runs import runs
from sessions_app.core.states import LIVE_STATUSES, Status
from sessions_app.services.sessions.log_pages import Found, Line, LogPage

_APART = timedelta(minutes=2)
_RAN = timedelta(seconds=50)
_FAILED = (Status.ERROR, "kernel_nonzero_exit")
_PREEMPTED = (Status.ERROR, "preempted")
_EVICTED = (Status.ERROR, "evicted")
_CHAINS: Mapping[str, list[tuple[Status, str | None]]] = {
    "waits": [(Status.PENDING, None)],
    "prepares": [_FAILED, (Status.PULLING, None)],
    "runs": [_FAILED, _EVICTED, (Status.RUNNING, None)],
    "retry waits": [_FAILED],
    "long": [_FAILED, *[_PREEMPTED] * 12, *[_FAILED] * 40, _EVICTED, (Status.RUNNING, None)],
    "succeeded": [(Status.ERROR, "oom_killed"), (Status.TERMINATED, None)],
    "cancelled": [(Status.CANCELLED, "user_cancelled")],
    "archived": [_FAILED],
}
"""The name of each moment, and how the attempts of its chain stand then."""
MOMENTS = [*_CHAINS]
_STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_COLOURED = [
    *(f"\x1b[{30 + colour}mcolour {colour}\x1b[0m" for colour in range(8)),
    *(f"\x1b[{40 + colour}mon colour {colour}\x1b[0m" for colour in range(8)),
    *(f"\x1b[{code}m{name}\x1b[0m" for code, name in _STYLES.items()),
    "Traceback (most recent call last):",
    f"a long line: {'x' * 400}",
]


def moment(name: str, now: datetime) -> dict[str, Any]:
    """Return what the timeline and the log of a moment show; of an unknown one the first."""
    known = name if name in _CHAINS else MOMENTS[0]
    ends = _CHAINS[known]
    begun = now - _APART * len(ends)
    attempts = [_attempt(number, begun, end) for number, end in enumerate(ends)]
    folded = runs(attempts, attempts[-1]["id"])
    newest = attempts[-1]
    return {
        "session": {**newest, "pk": newest["id"], "archived_chain": known == "archived" or None},
        "attempts": attempts,
        "folded": folded,
        "folds": len(folded) < len(attempts),
        "due_at": now + _APART if known == "retry waits" else None,
        **_log(known, newest["finished_at"] is None),
    }


def _attempt(number: int, begun: datetime, end: tuple[Status, str | None]) -> dict[str, Any]:
    status, cause = end
    created = begun + _APART * number
    scheduled, started = created + timedelta(seconds=10), created + timedelta(seconds=25)
    live = status in LIVE_STATUSES
    ran = status not in {Status.PENDING, Status.CANCELLED}
    return {
        "id": UUID(int=number + 1),
        "attempt": number,
        "status": status.value,
        "cause": cause,
        "failure_category": None,
        "failure_signature": "a512280df4ee" if cause == "kernel_nonzero_exit" else None,
        "exit_code": 1 if cause == "kernel_nonzero_exit" else None,
        "node": f"node-{number % 3}" if ran else None,
        "created_at": created,
        "scheduled_at": scheduled if ran else None,
        "started_at": started if ran and status is not Status.PULLING else None,
        "finished_at": None if live or status is Status.PENDING else started + _RAN,
    }


def _log(name: str, following: bool) -> dict[str, Any]:
    """Return the log of a moment: none, its end, a hit, found lines, or a page in the middle."""
    texts = [] if name in {"waits", "cancelled", "prepares"} else _COLOURED
    lines, size = [], 0
    for text in texts:
        lines.append(Line(size, text))
        size += len(text) + 1
    middle = name == "long"
    page = LogPage(size if middle else 0, 2 * size, (3 if middle else 2) * size, 2 * size, lines)
    hit = lines[-2].offset if name == "retry waits" else None
    searched = Found(0, page.size, page.size, 120, lines[:3]) if hit else None
    asked = {"find": "error"} if name == "succeeded" else {}
    wanted = LogWanted(q="colour" if hit else None, wrap="off" if middle else "on", **asked)
    return {
        "wanted": wanted,
        "misunderstood": ["at", "since"] if middle else [],
        "page": page,
        "lines": terminal_lines(lines, hit),
        "rest": terminal_lines([Line(size, "half a line")] if following else []),
        "shown": len(lines),
        "hit": hit,
        "following": following and not middle,
        "last": not middle,
        "found": searched,
        "tools": [LogLink("log-error", "Jump to the error", "find=error")],
        "pages": [LogLink("log-first", "Beginning", "at=0")] if middle else [],
    }
