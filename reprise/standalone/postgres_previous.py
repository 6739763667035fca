"""A PostgreSQL that an earlier run of the server left behind on the same cluster."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from reprise.standalone.postgres_failure import PostgresError
from reprise.standalone.postgres_socket import SOCKET

LEAVE_SECONDS = 5.0
STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02


def end_previous(cluster: Path, socket_dir: Path) -> None:
    """Ensure that no server runs on `cluster` and that no stale file blocks a new one.

    A running server dies with its parent, so it is waited for first, and then stopped. Raises
    `PostgresError` if it does not stop.
    """
    lock = cluster / "postmaster.pid"
    pid = _named_pid(lock)
    if pid is not None and _is_postmaster(pid, cluster):
        _end(pid, cluster)
    # PostgreSQL removes its lock files only if no process has the number in them: a zombie or an
    # unrelated process with that number would block it forever. Files of dead processes are left,
    # as they tell PostgreSQL which shared memory to look for.
    if pid is None or Path(f"/proc/{pid}").exists():
        lock.unlink(missing_ok=True)
    for stale in (socket_dir / SOCKET, socket_dir / f"{SOCKET}.lock"):
        stale.unlink(missing_ok=True)


def _is_postmaster(pid: int, cluster: Path) -> bool:
    """Return whether that process is alive and is the PostgreSQL of this cluster.

    Its start time is not compared: after a step of the clock, a live server would not match.
    """
    process = Path(f"/proc/{pid}")
    try:
        arguments = process.joinpath("cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # A zombie has no arguments any more, and a server's child processes show a title instead.
    if Path(os.fsdecode(arguments[0])).name not in {"postgres", "postmaster"}:
        return False
    return os.fsencode(cluster) in arguments or _works_in(process, cluster)


def _works_in(process: Path, cluster: Path) -> bool:
    try:
        return process.joinpath("cwd").samefile(cluster)
    except OSError:
        return False


def _named_pid(lock: Path) -> int | None:
    """Return the process that the lock file names; None without a file or with a truncated one."""
    try:
        return abs(int(lock.read_text(errors="replace").partition("\n")[0])) or None
    except (FileNotFoundError, ValueError):
        return None


def _end(pid: int, cluster: Path) -> None:
    if _gone(pid, cluster, LEAVE_SECONDS):
        return
    for number in (signal.SIGINT, signal.SIGQUIT):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if _gone(pid, cluster, STOP_SECONDS):
            return
    raise PostgresError(f"PostgreSQL (process {pid}) still runs on {cluster} and does not stop")


def _gone(pid: int, cluster: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _is_postmaster(pid, cluster):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
