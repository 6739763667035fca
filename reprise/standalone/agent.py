"""An executor as a child process, restarted when it dies."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from reprise.standalone.agent_previous import PreviousAgent
from reprise.standalone.errors import StandaloneError

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 6.0
FIRST_PAUSE = 0.5
MAX_PAUSE = 10.0
PREVIOUS_PAUSE = 0.5
LONG_LIFE = 60.0
"""Seconds after which the pause before a restart is reset: the cause is another one."""


def private_opener(path: str, flags: int) -> int:
    """Open a file; a new one is readable by its owner only."""
    return os.open(path, flags, 0o600)


class Agent:
    """Supervises `python -m executor`; all calls must come from the thread that created it.

    The agent dies with the thread that starts it, which must live as long as the process.
    """

    def __init__(
        self,
        *,
        url: str,
        name: str,
        token_file: Path,
        state_dir: Path,
        slots: int,
        log: Path,
        options: Sequence[str] = (),
    ):
        self._name = name
        self._log = log
        self._command = [
            sys.executable,
            "-m",
            "executor",
            "--name",
            name,
            "--url",
            url,
            "--token-file",
            str(token_file),
            "--state-dir",
            str(state_dir),
            "--max-sessions",
            str(slots),
            "--die-with-parent",
            *options,
        ]
        self._previous = PreviousAgent(state_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = FIRST_PAUSE
        self._started = 0.0
        self._not_before = 0.0

    def check(self) -> None:
        """Check that the agent can isolate its runs as configured.

        Raises `StandaloneError` with its message; once started, it would only log it.
        """
        command = [*self._command, "--check-isolation"]
        asked = subprocess.run(
            command, cwd=ROOT, env=_environ(), capture_output=True, text=True, check=False
        )
        if asked.returncode:
            errors = asked.stderr.splitlines() or [f"its check ended with {asked.returncode}"]
            raise StandaloneError(f"the executor {self._name} cannot start: {errors[-1]}")

    def start(self) -> None:
        """Start the agent, or start it later if one of an earlier run of the server still lives."""
        self._started = time.monotonic()
        if not self._previous.gone(self._started):
            self._not_before = self._started + PREVIOUS_PAUSE
            return
        with open(self._log, "ab", opener=private_opener) as log:
            # An earlier version may have created the file with other permissions.
            os.fchmod(log.fileno(), 0o600)
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,  # the module is here; the user's directory may have another of that name
                env=_environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def look_after(self) -> None:
        """Restart the agent if it ended, after a pause that grows while it keeps ending."""
        if self._process is not None and self._process.poll() is None:
            return
        now = time.monotonic()
        if self._not_before == 0.0 and self._process is not None:
            logger.warning(
                "the executor %s ended with code %d and is started again: see %s",
                self._name,
                self._process.returncode,
                self._log,
            )
            if now > self._started + LONG_LIFE:
                self._pause = FIRST_PAUSE
            self._not_before = now + self._pause
            self._pause = min(self._pause * 2, MAX_PAUSE)
        elif now >= self._not_before:
            self._not_before = 0.0
            self.start()

    def stop(self) -> None:
        """Ask the agent to end its runs and exit; kill it if it does not."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environ() -> dict[str, str]:
    """Return our environment without the server's own variables."""
    return {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "BROKER_URL"}}
