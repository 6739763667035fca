"""The state directory: only one agent at a time uses it, and each start counts its number up."""

import fcntl
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from executor.clock import boot_id, boottime
from executor.failpoints import failpoint
from executor.modes import insist, open_directory, restore

ID_LENGTH = 64
TURN_SECONDS = 1.0
"""Least seconds between two notes that the loop turns."""


class StateDirTakenError(Exception):
    """Another agent uses this state directory."""

    def __init__(self, path: Path):
        super().__init__(f"another agent is using the state directory {path}")


class StateDir:
    """The state directory at `path`, created if missing and locked until the process ends.

    Raises `StateDirTakenError` and `OSError`.
    """

    def __init__(self, path: Path):
        self.path = path
        self.runs = path / "runs"
        self.reports = path / "reports"
        for directory in (path, self.runs, self.reports):
            insist(directory, partial(directory.mkdir, mode=0o700, parents=True, exist_ok=True))
            open_directory(directory)
        self._modes: dict[Path, int] = {}
        self._turned_at = -TURN_SECONDS
        self._lock = insist(path / "lock", lambda: (path / "lock").open("a"))
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise StateDirTakenError(path) from None

    def is_whole(self) -> bool:
        """Return whether it tells of all runs that earlier agents left.

        A new one may stand in for one that is lost. After a loss of power what was not synced may
        be lost.
        """
        try:
            return self._read("boot") == boot_id()
        except (OSError, UnicodeDecodeError):
            return False

    def note_whole(self) -> None:
        """Record that it tells of all runs there are, until the machine boots again."""
        with suppress(OSError):
            replace_file(self.path / "boot", boot_id().encode("ascii"), durable=True)

    def note_answer(self) -> None:
        """Record by the time of a file that the server has just answered this agent."""
        with suppress(OSError):  # a full disk must not end what still works
            (self.path / "answered").touch(mode=0o600)

    def note_turn(self) -> None:
        """Record by the time of a file that the agent's loop turns.

        Directories that lost their modes get them again.
        """
        now = boottime()
        if now >= self._turned_at + TURN_SECONDS:
            self._turned_at = now
            self._keep_modes()
            with suppress(OSError):
                (self.path / "turned").touch(mode=0o600)

    def lease_life(self) -> tuple[float, float] | None:
        """Return the seconds for which leases last, and their grace; None if nobody has told."""
        try:
            ttl, grace = map(float, self._read("lease").split())
        except (OSError, ValueError):
            return None
        return ttl, grace

    def keep_lease_life(self, ttl: float, grace: float) -> None:
        with suppress(OSError):
            replace_file(self.path / "lease", f"{ttl} {grace}\n".encode("ascii"), durable=True)

    def identity(self) -> str:
        """Return the id of this directory.

        Directories of other agents with the same name have another.
        """
        path = self.path / "id"
        with suppress(FileNotFoundError, UnicodeDecodeError):
            if known := self._read("id").strip()[:ID_LENGTH]:
                return known
        made = uuid4().hex
        replace_file(path, f"{made}\n".encode("ascii"), durable=True)
        return made

    def next_incarnation(self) -> int:
        """Return one more than at the last start; 1 if the last number cannot be read."""
        try:
            last = int(self._read("incarnation"))
        except (FileNotFoundError, ValueError):
            last = 0
        self.write_incarnation(last + 1)
        return last + 1

    def write_incarnation(self, incarnation: int) -> None:
        failpoint("executor.before_incarnation_write")
        replace_file(self.path / "incarnation", f"{incarnation}\n".encode("ascii"), durable=True)
        failpoint("executor.after_incarnation_write")

    def _read(self, name: str) -> str:
        path = self.path / name
        return insist(path, partial(path.read_text, "ascii"))

    def _keep_modes(self) -> None:
        for directory in (self.path, self.runs, self.reports):
            if directory in self._modes:
                restore(directory, self._modes[directory])
            else:
                with suppress(OSError):
                    self._modes[directory] = stat.S_IMODE(directory.stat().st_mode)


def replace_file(path: Path, data: bytes, *, durable: bool) -> None:
    """Replace the file by `data` in one step: a killed process leaves the old or the new file.

    With `durable` the same holds after a loss of power, and the new file is on the disk on return.
    """
    draft = path.with_name(path.name + ".new")
    with insist(draft, lambda: draft.open("wb")) as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    insist(path, partial(draft.replace, path))
    if durable:
        insist(path, partial(sync_directory, path.parent))


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
