"""The backoff: a retry waits `min(base + base x ratio x fraction, cap)` seconds."""

import hashlib
from typing import NamedTuple

from retry.policies.inline import BackoffStrategy, InlinePolicy, JitterMode

DELAY_CEILING = 86_400.0

# Beyond this exponent every multiplier except 1 gives infinity or 0; floats still accept it.
_LAST_EXPONENT = 2**63


class Backoff(NamedTuple):
    """The parameters of the waits; both delays in seconds, `max_delay` None is no cap."""

    delay: float
    multiplier: float
    max_delay: float | None
    exponential: bool
    jitter: JitterMode
    jitter_ratio: float

    @classmethod
    def from_policy(cls, policy: InlinePolicy) -> "Backoff":
        return cls(
            delay=policy.retry_delay,
            multiplier=policy.backoff_multiplier,
            max_delay=policy.max_retry_delay,
            exponential=policy.backoff is BackoffStrategy.EXPONENTIAL,
            jitter=policy.jitter,
            jitter_ratio=policy.jitter_ratio,
        )


class Delay(NamedTuple):
    """One wait in seconds and its parts: `value = min(base + extra, cap)`."""

    base: float
    extra: float
    cap: float
    value: float


def delay_of(
    backoff: Backoff, n: int, *, session_id: str, retry_count: int, random: float
) -> Delay:
    """Return the wait before a retry whose budget has paid `n` retries before.

    `session_id` and `retry_count` are the failed session's, `random` is uniform in [0, 1). Every
    part is finite and at least 0; the value is at most the ceiling of 24 h, whatever the backoff.
    """
    cap = min(backoff.max_delay or DELAY_CEILING, DELAY_CEILING)
    base = min(backoff.delay * _growth(backoff, n), cap) if backoff.delay else 0.0
    fraction = 0.0
    if backoff.jitter is JitterMode.DETERMINISTIC:
        fraction = jitter_fraction(session_id, retry_count)
    elif backoff.jitter is JitterMode.RANDOM:
        fraction = min(max(0.0, random), 1.0)
    extra = base * backoff.jitter_ratio * fraction
    return Delay(base=base, extra=extra, cap=cap, value=min(base + extra, cap))


def jitter_fraction(session_id: str, retry_count: int) -> float:
    """Return a fraction in [0, 1], spread evenly over sessions and always the same for one session.

    It is the first 8 bytes of SHA-1("<session id>:<retry count>") as a big-endian integer over
    2^64. The id is a UUID in its canonical lower case.
    """
    seed = f"{session_id.lower()}:{retry_count}".encode("utf-8", "replace")
    digest = hashlib.sha1(seed, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _growth(backoff: Backoff, n: int) -> float:
    if not backoff.exponential:
        return 1.0
    try:
        return backoff.multiplier ** min(n, _LAST_EXPONENT)
    except OverflowError:
        return float("inf")
