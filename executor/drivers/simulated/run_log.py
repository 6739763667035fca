"""A record of what simulated runs really did, to compare with what the server believes."""

import json
import os
from pathlib import Path
from typing import Any

from executor.clock import boottime
from executor.drivers.protocol import Observation, Order


class RunLog:
    """A file of JSON lines, each an array.

    Times are in seconds since boot, which all processes of one machine share. Lines are written at
    once, so a killed process has written all that it did.

    `["started", session, token, root, time]`, `["ended", session, token, status, exit code, time]`,
    `["trouble", kind, time]`.
    """

    def __init__(self, path: Path):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def started(self, order: Order) -> None:
        root = order.environ.get("REPRISE_ROOT_SESSION_ID", "")
        self._write("started", *order.key, root)

    def ended(self, order: Order, seen: Observation) -> None:
        code = seen.termination["exit_code"] if seen.termination else None
        self._write("ended", *order.key, seen.status, code)

    def trouble(self, kind: str) -> None:
        """Note a trouble with the reports that are on their way."""
        self._write("trouble", kind)

    def _write(self, *values: Any) -> None:
        os.write(self._file, json.dumps([*values, boottime()]).encode() + b"\n")
