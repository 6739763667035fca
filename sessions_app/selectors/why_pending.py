"""The reason why a session waits. The scheduler registers the function that finds it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sessions_app.core.quotas import Held
from sessions_app.core.states import Phase
from sessions_app.models import Session
from sessions_app.selectors.dependencies import waits_for
from sessions_app.selectors.quotas import quota_holding


class Reason(StrEnum):
    """Reasons why a session waits, the strongest first."""

    DEPENDENCIES = "dependencies"
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
    """A reason, its explanation for people, and the session's position.

    `ahead` is the number of sessions of the queue that go before it, up to `MOST_AHEAD`.
    """

    reason: Reason
    message: str
    ahead: int


MOST_AHEAD = 1_000
WORTH_SAYING = 5.0
"""Seconds of waiting before a reason is looked for: most sessions are leased sooner, and
submissions are not slowed down by it."""
Explain = Callable[[Session, Held | None], WhyPending]
"""A function that explains why a session waits, given the quota that holds it, if any."""
_explain: list[Explain] = []


def explain_with(explain: Explain) -> None:
    """Register the scheduler's function that explains why a session waits."""
    _explain[:] = [explain]


def why_pending(session: Session, *, at_once: bool = False) -> WhyPending | None:
    """Return why a session waits; None if it does not, or has only just begun to.

    A quota is reported at once, since it is known when the session is created; with `at_once`
    everything is.
    """
    if session.phase == Phase.BLOCKED:
        return WhyPending(Reason.DEPENDENCIES, waits_for(session.root_id), 0)
    if session.phase != Phase.WAITING or not _explain:
        return None
    quota = quota_holding(session)
    if quota is None and not at_once and session.age < WORTH_SAYING:
        return None
    return _explain[0](session, quota)
