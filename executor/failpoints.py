"""Named places where a test can kill the agent.

`REPRISE_FAILPOINT=<name>` kills the process with SIGKILL where it first reaches that name. If
`REPRISE_FAILPOINT_ONCE` names a file, the file is created before dying, and while it exists the
failpoint is off. `REPRISE_FAILPOINT_FILE` names a file that is read at each place: the name in it
is the one that kills, and the file is removed before dying. `REPRISE_FAILPOINT_LOG` names a file
that gets every name reached, one a line.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

_STEPS = (
    "incarnation_write",
    "run_write",
    "process_write",
    "report_write",
    "answer_write",
    "journal_rewrite",
    "start",
    "run_remove",
    "lease_send",
    "report_send",
    "return_send",
    "log_send",
)

NAMES = tuple(f"executor.{when}_{step}" for step in _STEPS for when in ("before", "after"))
"""The places around each durable write, each send (`after` means that the answer has come) and each
start."""

OF_PODS = (
    "executor.before_pod_create",
    "executor.after_pod_create",
    "executor.before_secret_create",
    "executor.after_secret_create",
    "executor.before_pod_end",
    "executor.before_pod_unhold",
    "executor.after_pod_unhold",
)
"""The places that only the Kubernetes driver reaches."""

_ARMED = os.environ.get("REPRISE_FAILPOINT")
_ONCE = os.environ.get("REPRISE_FAILPOINT_ONCE")
_FILE = os.environ.get("REPRISE_FAILPOINT_FILE")
_LOG = os.environ.get("REPRISE_FAILPOINT_LOG")


def failpoint(name: str) -> None:
    """Die here if this failpoint is armed. Raises `ValueError` for a name not in `NAMES`."""
    if name not in (*NAMES, *OF_PODS):
        raise ValueError(f"unknown failpoint {name!r}")
    if _LOG:
        _append(Path(_LOG), name)
    if name == _ARMED and not (_ONCE and Path(_ONCE).exists()):
        if _ONCE:
            Path(_ONCE).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if _FILE:
        with suppress(FileNotFoundError):
            if Path(_FILE).read_text() == name:
                Path(_FILE).unlink()
                os.kill(os.getpid(), signal.SIGKILL)


def _append(path: Path, name: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(log, f"{name}\n".encode())
    finally:
        os.close(log)
