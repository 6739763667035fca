"""Copies a log that is fetched again after each cut and may rotate, each line only once.

A kubelet serves only the newest file of a container's log, so the bytes that were copied cannot be
skipped by count. But it can put the time before each line, and begin at a given second.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d) ")
_LONGEST_STAMP = 40
_SECONDS = len("2026-11-21T00:00:00")
_MARK_BYTES = 100
MISSING = "some output is missing: the node had rotated the log before it could be read on"


class Mark(NamedTuple):
    """The position of a copy.

    `rank` is the pod whose log is copied, `stamp` the time of the last line, `taken` the copied
    bytes of lines with this time, and `offset` the length of the copy after them.
    """

    rank: int = 0
    stamp: bytes = b""
    taken: int = 0
    offset: int = 0

    def dump(self) -> bytes:
        text = f"{self.rank} {self.taken} {self.offset} {self.stamp.decode()}"
        return text.ljust(_MARK_BYTES - 1).encode() + b"\n"

    @classmethod
    def load(cls, data: bytes) -> "Mark":
        """Return the mark in the data, or one for the beginning if the data is no mark."""
        try:
            rank, taken, offset, *stamp = data.decode().split()
            return cls(int(rank), "".join(stamp).encode(), int(taken), int(offset))
        except ValueError:
            return cls()


class LogCopy:
    """The logs of the ranks of a run, one after the other, appended to `output`.

    `marks` is a file beside it that tells a later agent where to go on. For each answer of the
    cluster call `begin`, then `write` for each piece, then `end`. No file stays open: there may be
    thousands of copies, and most have nothing to write for hours.
    """

    def __init__(self, output: Path, marks: Path):
        self._output = output
        self._marks = marks
        self._new: list[bytes] = []
        self._mark, self._have = Mark(), 0
        with suppress(FileNotFoundError):
            self._have = output.stat().st_size
        with suppress(FileNotFoundError):
            self._mark = Mark.load(marks.read_bytes()[:_MARK_BYTES])
        self._at = self._mark.offset
        # The output may hold bytes from after the mark. They are read once more and skipped.
        self._have = max(self._have, self._at)
        self.begin()

    @property
    def rank(self) -> int:
        return self._mark.rank

    @property
    def size(self) -> int:
        return self._at

    @property
    def since(self) -> str:
        """Return the time from which to ask for the log, in whole seconds; "" for all of it."""
        stamp = self._mark.stamp.decode()
        zone = "Z" if stamp.endswith("Z") else stamp[-len("+00:00") :]
        return stamp[:_SECONDS] + zone if stamp else ""

    def begin(self) -> None:
        """Expect the first piece of an answer, which may repeat what is copied."""
        self._rest = b""
        self._stamp = b""
        self._inside = False
        self._known = self._mark.taken
        self._repeats = bool(self._mark.stamp or self._mark.taken)

    def write(self, piece: bytes) -> None:
        data, place = self._rest + piece, 0
        while place < len(data):
            if not self._inside:
                stamp = _STAMP.match(data, place)
                if stamp is None and _too_short(data, place):
                    break
                if stamp is not None:
                    self._stamp, place = stamp.group()[:-1], stamp.end()
            end = data.find(b"\n", place) + 1
            self._inside, end = not end, end or len(data)
            self._take(data[place:end])
            place = end
        self._rest = data[place:]
        self._remember()

    def end(self) -> None:
        """Take the rest of a complete answer."""
        if self._rest:
            self._take(self._rest)
            self._rest = b""
            self._remember()

    def turn(self, rank: int, heading: str) -> None:
        """Go on with the log of another rank."""
        self._append(f"\n==== {heading} ====\n".encode())
        self._mark = Mark(rank)
        self._remember()
        self.begin()

    def note(self, text: str) -> None:
        """Write a remark of our own at the end of the copy."""
        self._at = self._have
        self._append(f"\n==== {text} ====\n".encode())
        self._remember()

    def _take(self, body: bytes) -> None:
        """Take a line, or a part of one, that has the present stamp.

        A line without a stamp comes from the kubelet itself or from a node that sends no stamps.
        """
        mark = self._mark
        if self._repeats:
            if self._stamp < mark.stamp:
                return
            if self._stamp > mark.stamp:
                self._repeats = False
                if mark.stamp and self._known == mark.taken:
                    self.note(MISSING)
            else:
                known = min(self._known, len(body))
                self._known -= known
                self._repeats = self._known > 0
                body = body[known:]
        if body:
            taken = mark.taken if self._stamp == mark.stamp else 0
            self._mark = mark._replace(stamp=self._stamp, taken=taken + len(body))
            self._append(body)

    def _append(self, data: bytes) -> None:
        new = data[max(0, self._have - self._at) :]
        self._at += len(data)
        if new:
            self._new.append(new)
            self._have = self._at

    def _remember(self) -> None:
        if self._new:
            data = b"".join(self._new)
            with _opened(self._output, os.O_WRONLY | os.O_APPEND) as file:
                while data:
                    data = data[os.write(file, data) :]
            self._new.clear()
        self._mark = self._mark._replace(offset=self._at)
        with _opened(self._marks, os.O_WRONLY) as file:
            os.pwrite(file, self._mark.dump(), 0)


@contextmanager
def _opened(path: Path, access: int) -> Iterator[int]:
    file = os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _too_short(data: bytes, place: int) -> bool:
    """Return whether the rest of the data may be the beginning of a stamp."""
    left = data[place : place + _LONGEST_STAMP]
    return len(left) < _LONGEST_STAMP and left[:1].isdigit() and b"\n" not in left
