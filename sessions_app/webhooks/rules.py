"""What an answer to a webhook means, when it is sent again, and which events there are. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

from sessions_app.core.states import EVENT_TYPES

DELAYS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds from each failed attempt to the next, as is usual with Standard Webhooks: 28 hours."""
JITTER = 0.2
"""A delay is longer or shorter by up to this part of it."""
LONGEST_PAUSE = 86_400.0
"""Seconds that a receiver may put an attempt off by."""

TYPES = frozenset(
    {
        *EVENT_TYPES.values(),
        *(
            f"session.{name}"
            for name in (
                *("submitted", "progress", "lease_returned", "lease_expired", "archived"),
                *("report_ignored", "retry_scheduled", "retry_postponed", "retry_dispatched"),
                *("retry_exhausted", "retry_succeeded", "retry_cancelled"),
            )
        ),
    }
)
"""Every type of event of the log."""
PING = "webhook.ping"


def known_types(wanted: str) -> bool:
    """Whether there are events of a type, or of types that begin as one that ends with `*`."""
    if wanted.endswith("*"):
        return any(each.startswith(wanted[:-1]) for each in TYPES)
    return wanted in TYPES


class Result(StrEnum):
    """What one attempt came to."""

    DELIVERED = "delivered"
    AGAIN = "again"
    GIVEN_UP = "given up"
    GONE = "gone"
    """The receiver says that nobody is there any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said; without a `code` there was no answer, and `error` says why."""

    code: int | None = None
    error: str = ""
    excerpt: str = ""
    retry_after: float | None = None
    latency_ms: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an attempt; `delay` is seconds until the next one, if there is one."""

    result: Result
    delay: float | None = None


def judge(answer: Answer, *, attempts: int, jitter: float) -> Verdict:
    """What becomes of a delivery after so many attempts; `jitter` is from 0 to 1.

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
    """Seconds that a `Retry-After` asks for (RFC 9110, section 10.2.3); None if it says nothing."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - now) / timedelta(seconds=1))
    except (ValueError, OverflowError):
        # Numbers that no date can have; the text is the receiver's.
        return None
