"""An append-only file of JSON lines that survives the sudden death of its writer."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from executor.failpoints import failpoint
from executor.modes import insist
from executor.state import replace_file

Entry = list[Any]


class Journal:
    """The file at `path`, created by the first write. It has one writer and is not thread-safe."""

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None
        self.size = 0

    def load(self) -> list[Entry]:
        """Return all complete entries. A line that its writer could not finish is skipped."""
        try:
            lines = insist(self._path, self._path.read_bytes).splitlines()
        except FileNotFoundError:
            return []
        return [entry for line in lines if (entry := _decode(line)) is not None]

    def append(self, entries: Iterable[Entry], *, durable: bool) -> None:
        """Append the entries. With `durable` they are on the disk on return."""
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = insist(self._path, partial(os.open, self._path, flags, 0o600))
        data = _encode(entries)
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])
        if durable:
            os.fsync(self._file)
        self.size += len(data)

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """Replace the whole file by `entries`."""
        data = _encode(entries)
        failpoint("executor.before_journal_rewrite")
        self.close()
        replace_file(self._path, data, durable=True)
        failpoint("executor.after_journal_rewrite")
        self.size = len(data)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _encode(entries: Iterable[Entry]) -> bytes:
    return b"".join([to_json(entry) + b"\n" for entry in entries])


def _decode(line: bytes) -> Entry | None:
    try:
        entry = from_json(line)
    except ValueError:
        return None
    return entry if isinstance(entry, list) and entry else None
