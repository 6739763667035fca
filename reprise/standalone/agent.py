"""An executor as a child process, restarted when it dies."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from reprise import shared_metrics
from reprise.standalone.agent_previous import PreviousAgent
from reprise.standalone.child import ROOT, Child
from reprise.standalone.errors import StandaloneError

PREVIOUS_PAUSE = 0.5


def private_opener(path: str, flags: int) -> int:
    """Open a file; a new one is readable by its owner only."""
    return os.open(path, flags, 0o600)


class Agent(Child):
    """Supervises `python -m executor`; all calls must come from the thread that created it.

    The agent dies with the thread that starts it, which must live as long as the process.
    """

    stop_seconds = 6.0
    """Time for its runs to end."""

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
        super().__init__()
        self.name = f"executor {name}"
        self.output = str(log)
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
            # With our id: an agent that starts while we die would take its next parent for us.
            *("--die-with-parent", str(os.getpid())),
            *options,
        ]
        self._previous = PreviousAgent(state_dir)

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
            raise StandaloneError(f"the {self.name} cannot start: {errors[-1]}")

    def start(self) -> None:
        """Start the agent, or start it later if one of an earlier run of the server still lives."""
        now = time.monotonic()
        if self._previous.gone(now):
            super().start()
        else:
            self._not_before = now + PREVIOUS_PAUSE

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with open(self._log, "ab", opener=private_opener) as log:
            # An earlier version may have created the file with other permissions.
            os.fchmod(log.fileno(), 0o600)
            return subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=_environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def _environ() -> dict[str, str]:
    """Return our environment without the server's own variables."""
    ours = {"DATABASE_URL", "BROKER_URL", shared_metrics.DIRECTORY}
    return {k: v for k, v in os.environ.items() if k not in ours}
