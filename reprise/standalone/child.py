"""A child process that is started again when it dies."""

import logging
import subprocess
import time
from pathlib import Path

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
"""Working directory of children: the modules are here, and the user's may have others."""
FIRST_PAUSE = 0.5
MAX_PAUSE = 10.0
LONG_LIFE = 60.0
"""Seconds after which the pause before a restart is reset: the cause is another one."""


class Child:
    """Supervises one process; all calls must come from the thread that created it."""

    name: str
    """The name of the process in the log."""
    output: str
    """The path of its output, which the log names."""
    stop_seconds: float
    """Seconds that it gets to stop."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = FIRST_PAUSE
        self._started = 0.0
        self._not_before = 0.0

    def start(self) -> None:
        """Start the process."""
        self._started = time.monotonic()
        self._process = self._spawn()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def look_after(self) -> None:
        """Restart the process if it ended, after a pause that grows while it keeps ending."""
        if self.alive:
            return
        now = time.monotonic()
        if self._not_before == 0.0 and self._process is not None:
            logger.warning(
                "the %s ended with code %d and is restarted: see %s",
                self.name,
                self._process.returncode,
                self.output,
            )
            if now > self._started + LONG_LIFE:
                self._pause = FIRST_PAUSE
            self._not_before = now + self._pause
            self._pause = min(self._pause * 2, MAX_PAUSE)
        elif now >= self._not_before:
            self._not_before = 0.0
            self.start()

    def stop(self) -> None:
        """Ask the process to stop; kill it if it does not."""
        if self._process is None or not self.alive:
            return
        self._process.terminate()
        try:
            self._process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
