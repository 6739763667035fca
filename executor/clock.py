"""The executor's clock for deadlines."""

import time


def boottime() -> float:
    """Return the seconds since boot.

    Unlike the monotonic clock, this one counts the sleep of a suspended machine. The server goes on
    counting the life of a lease during it.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
