"""Failpoints: places where a test can kill this process, to prove that nothing is lost there.

They do nothing unless the environment says otherwise. `REPRISE_FAILPOINT` names the place that
kills. `REPRISE_FAILPOINT_ONCE` is a file that is created before dying and prevents a second death.
`REPRISE_FAILPOINT_FILE` is a file that each place reads: it may hold the name of the place that
kills, and is removed before dying. `REPRISE_FAILPOINT_LOG` is a file to which each place reached is
appended.
"""

import os
import signal
from pathlib import Path

STEPS = (
    "submit",
    "settle",
    "dispatch",
    "resume",
    "cancel",
    "preempt",
    "priority",
    "manual_retry",
    "drain",
    "lease",
    "heartbeat",
    "report",
    "return",
    "log",
    "expire",
    "verify",
    "archive",
    "forget",
    "webhook_read",
    "webhook_claim",
    "webhook_record",
    "failures",
    "nodes",
    "breakers",
    "failover",
    "schedule",
    "dependants",
    "make_room",
    "wait",
)
SENDS = tuple(
    f"{what}.{edge}_send" for what in ("hint", "notify", "webhook") for edge in ("before", "after")
)
NAMES = frozenset(
    [*SENDS, *(f"{step}.{edge}_commit" for step in STEPS for edge in ("before", "after"))]
)

_TARGET = os.environ.get("REPRISE_FAILPOINT")
_LOG = os.environ.get("REPRISE_FAILPOINT_LOG")
_ONCE = os.environ.get("REPRISE_FAILPOINT_ONCE")
_FILE = os.environ.get("REPRISE_FAILPOINT_FILE")


def failpoint(name: str) -> None:
    """Kill this process if this is the chosen failpoint."""
    if _TARGET is None and _LOG is None and _FILE is None:
        return
    if name not in NAMES:
        raise AssertionError(f"unknown failpoint {name}")
    if _LOG is not None:
        with Path(_LOG).open("a") as log:
            log.write(name + "\n")
    if _dies(name):
        os.kill(os.getpid(), signal.SIGKILL)


def _dies(name: str) -> bool:
    try:
        if _FILE is not None and Path(_FILE).read_text() == name:
            Path(_FILE).unlink()
            return True
        if name == _TARGET and _ONCE is not None:
            Path(_ONCE).touch(exist_ok=False)
    except (FileNotFoundError, FileExistsError):
        return False
    return name == _TARGET
