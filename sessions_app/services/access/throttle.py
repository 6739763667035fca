"""Limits on the calls a minute of one caller, over all processes together.

Each process takes the calls of one second at once and spends them by itself. So a caller far below
the limit costs hardly a statement, and one far above it a statement for each wait.
"""

import threading
import time
from dataclasses import dataclass
from math import floor

from django.db import connection

KEPT_SECONDS = 60.0
"""Seconds after which calls that a process took and did not spend are lost."""
MOST_KEPT = 10_000
"""Maximum number of callers that a process remembers."""

# The budget starts full and refills evenly, up to the calls of a minute.
_TAKE = """
    INSERT INTO sessions_app_requestbudget AS b (key, available, granted, refilled_at)
    VALUES (%(key)s, %(limit)s::float8 - %(share)s::float8, %(share)s::float8, clock_timestamp())
    ON CONFLICT (key) DO UPDATE SET (available, granted, refilled_at) = (
        SELECT filled.now - filled.share, filled.share, clock_timestamp()
        FROM (SELECT n.now, least(%(share)s::float8, floor(n.now)) AS share
            FROM (SELECT least(%(limit)s::float8, b.available + %(limit)s::float8 / 60
                * greatest(0, extract(epoch FROM clock_timestamp() - b.refilled_at))::float8
            ) AS now) n
        ) filled)
    RETURNING granted, available
"""


@dataclass(slots=True)
class _Kept:
    """The calls that a process may still spend until a moment; or the time until a refusal ends."""

    left: int
    until: float


_kept: dict[int, _Kept] = {}
_lock = threading.Lock()


def call_permit(key: int, per_minute: int) -> float:
    """Count a call of the caller `key`. Return 0, or the seconds that the caller has to wait.

    A limit of 0 is no limit.
    """
    if per_minute <= 0:
        return 0.0
    known = _spend(key)
    if known is not None:
        return known
    granted, available = _take(key, per_minute)
    wait = 0.0 if granted >= 1 else (1 - available) * 60 / per_minute
    with _lock:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        now = time.monotonic()
        _kept[key] = _Kept(floor(granted) - 1, now + (wait or KEPT_SECONDS))
    return wait


def _spend(key: int) -> float | None:
    """Answer as `call_permit` from this process's memory; None if the database must be asked."""
    with _lock:
        kept, now = _kept.get(key), time.monotonic()
        if kept is None or kept.until <= now or kept.left == 0:
            return None
        if kept.left < 0:
            return kept.until - now
        kept.left -= 1
        return 0.0


def _take(key: int, per_minute: int) -> tuple[float, float]:
    with connection.cursor() as cursor:
        share = max(1, per_minute // 60)
        cursor.execute(_TAKE, {"key": key, "limit": per_minute, "share": share})
        row: tuple[float, float] = cursor.fetchone()
    return row
