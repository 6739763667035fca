"""An agent that an earlier life of the service left behind on the same state directory."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 6.0
"""The kernel has told it to stop when its parent died; no agent takes longer for that."""


class PreviousAgent:
    """Whoever holds the state directory's lock when an agent of ours is to begin."""

    def __init__(self, state_dir: Path):
        self._lock = state_dir / "lock"
        self._first_seen: float | None = None

    def gone(self, now: float) -> bool:
        """Return whether nobody is there any more; end at last whoever does not leave.

        All its runs and reports bear a sudden death, and an agent that hangs hears no signal but
        this one. To be asked again and again.
        """
        holders = list(_holders(self._lock))
        if not holders:
            self._first_seen = None
            return True
        if self._first_seen is None:
            self._first_seen = now
        elif now > self._first_seen + LEAVE_SECONDS:
            logger.warning("an agent of an earlier life is ended: process %s", holders)
            for pid in holders:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return False


def _holders(lock: Path) -> Iterator[int]:
    """The processes with a descriptor that holds the lock; a fork that never ran holds it, too."""
    try:
        wanted = lock.stat()
    except FileNotFoundError:
        return
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is somebody else's
            if int(process.name) != os.getpid() and _holds(process, wanted):
                yield int(process.name)


def _holds(process: Path, wanted: os.stat_result) -> bool:
    for descriptor in process.joinpath("fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(descriptor.stat(), wanted):
                said = process.joinpath("fdinfo", descriptor.name).read_text()
                if "FLOCK" in said:
                    return True
    return False
