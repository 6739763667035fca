"""The executor's clock for deadlines, and which boot of the machine it counts from."""

import time
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boottime() -> float:
    """Return the seconds since boot.

    Unlike the monotonic clock, this one counts the sleep of a suspended machine. The server goes on
    counting the life of a lease during it.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """Return the kernel's name of this boot of the machine."""
    return _BOOT_ID.read_text("ascii").strip()
