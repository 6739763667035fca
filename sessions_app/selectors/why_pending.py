"""Why a session waits. The scheduler knows; who shows sessions only asks here."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sessions_app.core.quotas import Held
from sessions_app.core.states import Phase
from sessions_app.models import Session
from sessions_app.selectors.quotas import quota_holding


class Reason(StrEnum):
    """What holds a waiting session, the strongest first."""

    QUOTA = "quota"
    QUEUE_CORDONED = "queue_cordoned"
    PROJECT_TROUBLE = "project_trouble"
    EXECUTOR_TROUBLE = "executor_trouble"
    EXECUTOR_CORDONED = "executor_cordoned"
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
Explain = Callable[[Session, Held | None], WhyPending]
"""Says why a session waits, which may be for a quota."""
_explain: list[Explain] = []


def explain_with(explain: Explain) -> None:
    """Let the scheduler say why a session waits."""
    _explain[:] = [explain]


def why_pending(session: Session) -> WhyPending | None:
    """What holds a session; None if it does not wait, or has only begun to.

    A quota is told at once: it is known when a session is made.
    """
    if session.phase != Phase.WAITING or not _explain:
        return None
    quota = quota_holding(session)
    if quota is None and session.age < WORTH_SAYING:
        return None
    return _explain[0](session, quota)
