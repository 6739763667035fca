"""The directory of a run: what the session sees, what it leaves, and what a later agent must
know."""

import ctypes
import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from reprise_client.wire import LeaseKey

from executor.failpoints import failpoint
from executor.modes import insist, open_all
from executor.state import replace_file

log = logging.getLogger(__name__)

MESSAGE_BYTES = 4096
_PUNCH_HOLE = 0x01 | 0x02
"""The flags FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE."""
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
NOWHERE = Path("/nonexistent")
_OUTPUT = "output"


@dataclass(frozen=True)
class RunFiles:
    """The files in `<runs>/<session id>-<fencing token>/`, which belongs to one lease."""

    key: LeaseKey
    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def output(self) -> Path:
        return self.path / _OUTPUT

    @property
    def end_record(self) -> Path:
        """Return the file that tells how the end of a long output continues its beginning.

        `log_end` writes it.
        """
        return self.path / "output.end"

    @property
    def termination_log(self) -> Path:
        return self.path / "termination-log"

    @property
    def record(self) -> Path:
        return self.path / "run.json"

    def make_places(self) -> None:
        """Create the directories that a local process works in; a pod has its own."""
        for directory in (self.work, self.tmp):
            insist(directory, partial(directory.mkdir, mode=0o700, exist_ok=True))

    def read_output(self, offset: int, size: int) -> bytes:
        # This is called twice a second for each of a thousand runs, and most have written nothing
        # new.
        if self.output_size() > offset:
            return _read_regular(self.output, offset, size)
        return b""

    def output_size(self) -> int:
        """Return the bytes written so far, including those that were freed."""
        try:
            # Without a new path object, which takes longer than the look at the file.
            return os.lstat(f"{self.path}/{_OUTPUT}").st_size
        except PermissionError:
            with suppress(OSError):
                return insist(self.output, self.output.lstat).st_size
        except OSError:
            pass
        return 0

    def free_output(self, begin: int, end: int) -> bool:
        """Free these bytes on disk; all others keep their positions. Return False if that fails."""
        try:
            with _opened(self.output, os.O_WRONLY) as file:
                return bool(_fallocate(file, _PUNCH_HOLE, begin, end - begin) == 0)
        except OSError:
            return False

    def empty_output(self) -> None:
        """Empty the file to free the disk.

        The run writes in append mode, so it goes on at the new end.
        """
        with suppress(OSError), _opened(self.output, os.O_WRONLY) as file:
            os.ftruncate(file, 0)

    def termination_message(self) -> str:
        """Return the end of what the session wrote to its termination log; "" if it wrote none."""
        try:
            size = insist(self.termination_log, self.termination_log.lstat).st_size
        except OSError:
            return ""
        data = _read_regular(self.termination_log, max(0, size - MESSAGE_BYTES), MESSAGE_BYTES)
        return data.decode("utf-8", "replace")

    def write_record(self, process: dict[str, Any] | None) -> None:
        """Write whose directory this is and, once it runs, the driver's facts of its process.

        This is not synced: after a loss of power nothing of the run is left to look for, and the
        server settles runs that the agent does not name.
        """
        record = {**self.key._asdict(), "process": process}
        replace_file(self.record, json.dumps(record).encode(), durable=False)

    def read_process(self) -> dict[str, Any] | None:
        process = json.loads(self.record.read_bytes())["process"]
        return process if isinstance(process, dict) else None


class Runs(Protocol):
    """The records of runs, kept for the agent that follows a sudden death of this one."""

    def create(self, key: LeaseKey) -> RunFiles: ...

    def leftovers(self) -> Iterable[RunFiles]:
        """Return the runs of earlier agents."""
        ...

    def retire(self, files: RunFiles) -> None:
        """Remove the record of a run that is over and fully reported."""
        ...


class RunStore:
    """The run directories of one state directory."""

    def __init__(self, path: Path):
        self._path = path

    def create(self, key: LeaseKey) -> RunFiles:
        files = RunFiles(key, self._path / f"{key.session_id}-{key.fencing_token}")
        insist(files.path, partial(files.path.mkdir, mode=0o700, exist_ok=True))
        failpoint("executor.before_run_write")
        files.write_record(None)
        failpoint("executor.after_run_write")
        return files

    def leftovers(self) -> Iterator[RunFiles]:
        """Yield the runs of earlier agents, and remove directories without a readable record.

        Such a run never started, or its removal was interrupted.
        """
        for path in sorted(self._path.iterdir()):
            note = path / "run.json"
            try:
                record = json.loads(insist(note, note.read_bytes))
                key = LeaseKey(record["session_id"], record["fencing_token"])
            except (OSError, ValueError, TypeError, KeyError):
                remove_tree(path)
                continue
            yield RunFiles(key, path)

    def retire(self, files: RunFiles) -> None:
        """Remove the record, so that the next agent only removes the directory."""
        failpoint("executor.before_run_remove")
        try:
            insist(files.record, partial(files.record.unlink, missing_ok=True))
        except OSError as error:
            log.error("cannot remove the record of session %s: %s", files.key, error)
        failpoint("executor.after_run_remove")


class BareRuns:
    """Runs without directories. Everything known of them is in the reports."""

    def __init__(self, known: Callable[[], Iterable[LeaseKey]]):
        self._known = known

    def create(self, key: LeaseKey) -> RunFiles:
        return RunFiles(key, NOWHERE)

    def leftovers(self) -> Iterable[RunFiles]:
        return [RunFiles(key, NOWHERE) for key in self._known()]

    def retire(self, files: RunFiles) -> None:
        """Do nothing: there is no directory."""


def remove_tree(path: Path) -> None:
    """Remove a tree as far as possible. The rest is tried again at the next start.

    A run may have closed directories of its own. That is usual, such as for Go's modules.
    """
    shutil.rmtree(path, ignore_errors=True)
    with suppress(FileNotFoundError, PermissionError):
        insist(path, path.lstat)
        open_all(path)
        shutil.rmtree(path, ignore_errors=True)


def _read_regular(path: Path, offset: int, size: int) -> bytes:
    try:
        with _opened(path, os.O_RDONLY) as file:
            return os.pread(file, size, offset) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""


@contextmanager
def _opened(path: Path, access: int) -> Iterator[int]:
    # The session may have put anything here: a link could lead elsewhere, a FIFO could block.
    flags = access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = insist(path, partial(os.open, path, flags))
    try:
        yield file
    finally:
        os.close(file)
