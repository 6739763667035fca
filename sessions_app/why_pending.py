"""Why a session waits. The scheduler knows; who shows sessions only asks here."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sessions_app.models import Session
from sessions_app.states import Phase


class Reason(StrEnum):
    """What holds a waiting session, the strongest first."""

    QUEUE_CORDONED = "queue_cordoned"
    QUOTA = "quota"
    NO_EXECUTOR = "no_executor"
    NO_FIT = "no_fit"
    QUEUE_LIMIT = "queue_limit"
    AVOIDED = "avoided"
    CAPACITY = "capacity"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class WhyPending:
    """One reason in a word and in words for people, and its place in the queue.

    `ahead` are the sessions of the queue that go before it, up to `MOST_AHEAD`.
    """

    reason: Reason
    message: str
    ahead: int


MOST_AHEAD = 1_000
WORTH_SAYING = 5.0
"""Seconds: most sessions are leased sooner, and whoever submits is not kept waiting for this."""
_explain: list[Callable[[Session], WhyPending]] = []


def explain_with(explain: Callable[[Session], WhyPending]) -> None:
    """Let the scheduler say why a session waits."""
    _explain[:] = [explain]


def why_pending(session: Session) -> WhyPending | None:
    """What holds a session; None if it does not wait, or has only begun to."""
    if session.phase != Phase.WAITING or session.age < WORTH_SAYING or not _explain:
        return None
    return _explain[0](session)


def why_pending_json(session: Session) -> dict[str, Any] | None:
    """The same as JSON values."""
    why = why_pending(session)
    return None if why is None else asdict(why)
