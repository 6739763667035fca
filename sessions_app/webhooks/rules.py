"""Rules of webhooks: what an answer means, when to send again, and the event types. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

from sessions_app.core.states import EVENT_TYPES

DELAYS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds from each failed attempt to the next, as recommended by Standard Webhooks: 28 hours."""
JITTER = 0.2
"""Maximum deviation of a delay, as a fraction of it."""
LONGEST_PAUSE = 86_400.0
"""Maximum seconds by which a receiver may postpone an attempt."""

TYPES = frozenset(
    {
        *EVENT_TYPES.values(),
        *("breaker.opened", "breaker.closed"),
        *(
            f"session.{name}"
            for name in (
                *("submitted", "progress", "lease_returned", "lease_expired", "archived"),
                *("placement_refused", "priority_changed", "report_ignored"),
                *("retry_scheduled", "retry_postponed", "retry_dispatched", "retry_exhausted"),
                "retry_parked",
                *("retry_succeeded", "retry_cancelled"),
            )
        ),
    }
)
"""Every event type of the log."""
NODE_SUSPECT, NODE_CLEARED = "node.suspect", "node.cleared"
CLUSTER_TYPES = frozenset({NODE_SUSPECT, NODE_CLEARED})
"""Event types that belong to no session: the log does not have them, and a webhook gets them only
if it names them."""
PING = "webhook.ping"


def known_types(wanted: str) -> bool:
    """Return whether an event type exists, or any type with the prefix before a final `*`."""
    types = TYPES | CLUSTER_TYPES
    if wanted.endswith("*"):
        return any(each.startswith(wanted[:-1]) for each in types)
    return wanted in types


class Result(StrEnum):
    """The result of one attempt."""

    DELIVERED = "delivered"
    AGAIN = "again"
    GIVEN_UP = "given up"
    GONE = "gone"
    """The receiver says that it no longer exists."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a receiver; `code` None: there was none, and `error` says why."""

    code: int | None = None
    error: str = ""
    excerpt: str = ""
    retry_after: float | None = None
    latency_ms: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an attempt; `delay` is the seconds until the next one, if there is one."""

    result: Result
    delay: float | None = None


def verdict_of(answer: Answer, *, attempts: int, jitter: float) -> Verdict:
    """Return what follows from an answer after so many attempts; `jitter` is from 0 to 1.

    Only 2xx is success: redirects are not followed, since they may lead anywhere.
    """
    if answer.code is not None and 200 <= answer.code < 300:
        return Verdict(Result.DELIVERED)
    if answer.code == 410:
        return Verdict(Result.GONE)
    if attempts > len(DELAYS):
        return Verdict(Result.GIVEN_UP)
    delay = DELAYS[attempts - 1] * (1 - JITTER + 2 * JITTER * jitter)
    if answer.retry_after is not None and answer.code in {429, 503}:
        delay = max(delay, min(answer.retry_after, LONGEST_PAUSE))
    return Verdict(Result.AGAIN, delay)


def retry_after(header: str, now: datetime) -> float | None:
    """Return the seconds in a `Retry-After` (RFC 9110, section 10.2.3); None if it is not valid."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - now) / timedelta(seconds=1))
    except (ValueError, OverflowError):
        # The receiver's text may contain numbers that no date can have.
        return None
