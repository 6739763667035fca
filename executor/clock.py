"""The executor's clock for deadlines."""

import time


def boottime() -> float:
    """Seconds since boot. Unlike the monotonic clock it also counts a suspended machine's sleep,
    in which the server goes on counting a lease's life."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
