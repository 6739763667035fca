"""An agent that an earlier run of the server left behind on the same state directory."""

import fcntl
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 6.0
"""Seconds to wait for it: the kernel told it to stop when its parent died, and that takes less."""


class PreviousAgent:
    """The processes that hold the lock of the state directory before our agent starts."""

    def __init__(self, state_dir: Path):
        self._lock = state_dir / "lock"
        self._first_seen: float | None = None

    def gone(self, now: float) -> bool:
        """Return whether no such process is left; kill those that do not leave in time.

        Killing is safe: its runs and reports survive a sudden death, and an agent that hangs
        ignores any other signal. The caller asks again until True.
        """
        holders = list(_holders(self._lock))
        if not holders:
            self._first_seen = None
            return True
        if self._first_seen is None:
            self._first_seen = now
        elif now > self._first_seen + LEAVE_SECONDS:
            logger.warning("ending an agent that an earlier start left behind: process %s", holders)
            for pid in holders:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return False


def _holders(lock: Path) -> Iterator[int]:
    """Yield the processes with a descriptor that holds the lock, including forks of its holder."""
    try:
        wanted = lock.stat()
    except FileNotFoundError:
        return
    if _free(lock):
        return  # To look through all processes takes long.
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or belongs to another user
            if int(process.name) != os.getpid() and _holds(process, wanted):
                yield int(process.name)


def _free(lock: Path) -> bool:
    with suppress(OSError), lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)  # before the end of a fork that has the file, too
        return True
    return False


def _holds(process: Path, wanted: os.stat_result) -> bool:
    for descriptor in process.joinpath("fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(descriptor.stat(), wanted):
                text = process.joinpath("fdinfo", descriptor.name).read_text()
                if "FLOCK" in text:
                    return True
    return False
