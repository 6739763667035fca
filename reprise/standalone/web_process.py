"""The web server as processes of their own, which all accept from one listening socket."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from reprise.standalone.child import ROOT, Child
from reprise.standalone.death_signal import die_with
from reprise.standalone.errors import StandaloneError
from reprise.standalone.interrupts import uninterrupted
from reprise.standalone.web import GRACE_SECONDS
from reprise.worker import relay

logger = logging.getLogger(__name__)

READY = "ready\n"
"""The line that a web process writes to its pipe when it accepts connections."""
START_SECONDS = 60.0
LOOK_SECONDS = 0.1


class WebProcess(Child):
    """Supervises `reprise-server web_process`; all calls must come from the thread that created it.

    The kernel ends the process when that thread ends, so that the port is free again.
    """

    output = "its output above"
    stop_seconds = GRACE_SECONDS + 1.0

    def __init__(
        self, number: int, listener: socket.socket, data_dir: Path, options: Sequence[str]
    ):
        super().__init__()
        self.name = f"web process {number}"
        self._listener = listener
        self._command = [
            *(sys.executable, "-m", "reprise_server", "web_process", "--data-dir", str(data_dir)),
            *options,
        ]
        self._answers = threading.Event()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._answers = threading.Event()
        theirs, ours = self._listener.fileno(), os.pipe()
        fixed = ["--listener", str(theirs), "--pipe", str(ours[1])]
        try:
            with uninterrupted():
                process = subprocess.Popen(
                    [*self._command, *fixed],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs, ours[1]),
                    preexec_fn=die_with(os.getpid(), signal.SIGKILL),  # noqa: PLW1509  # see there
                )
        except BaseException:
            os.close(ours[0])
            raise
        finally:
            os.close(ours[1])
        threading.Thread(
            target=_hear, args=(ours[0], self._answers), name="web messages", daemon=True
        ).start()
        return process

    def await_ready(self) -> None:
        """Wait until the process accepts connections. Raises `StandaloneError` if it does not."""
        deadline = time.monotonic() + START_SECONDS
        while not self._answers.wait(LOOK_SECONDS):
            if not self.alive or time.monotonic() > deadline:
                raise StandaloneError(f"the {self.name} has not started: see its output above")


def _hear(pipe: int, answers: threading.Event) -> None:
    """Send the messages of a web process until it ends."""
    with open(pipe, encoding="utf-8") as lines:
        for line in lines:
            if line == READY:
                answers.set()
                continue
            try:
                relay.send(line)
            except Exception as error:  # noqa: BLE001  # whatever fails, later messages must go on
                logger.info("message dropped: %s", error)
