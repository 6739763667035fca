"""Keeps the end of an output that is longer than a log may be.

The server stores the beginning while it is written. Of the rest, the run's file keeps only the last
part. What is before that is freed while the run goes on, by a hole at the front of the file, so
that positions in the file do not change. When the run has ended, the last part is sent after the
beginning, behind a line that says how much is missing.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from executor.runs import RunFiles
from executor.state import replace_file

STEP = 1024 * 1024
"""Least number of bytes to free at a time."""
BLOCK = 4096
LINE_WITHIN = 64 * 1024
"""The end starts with a whole line if one begins within this many bytes."""
LARGEST = 8 * 1024**4
"""Largest output in bytes. Some file systems have no positions beyond 16 TiB."""
MARKER_BYTES = 100


@dataclass
class LogEnd:
    """The end of an output.

    `after` is where the stored beginning stops, `size` the longest that the end may be with its
    marker. Once the run has ended, `start` is where its end begins in the file.
    """

    after: int
    size: int
    start: int | None = None
    marker: str = ""
    freed: int = 0

    @classmethod
    def load(cls, files: RunFiles) -> "LogEnd | None":
        """Return what an earlier agent wrote down; None if the output was short so far."""
        with suppress(OSError, ValueError, TypeError):
            return cls(**json.loads(files.end_record.read_bytes()))
        return None

    def save(self, files: RunFiles) -> None:
        """Write it down, because freed bytes cannot be read again."""
        with suppress(OSError):
            replace_file(files.end_record, json.dumps(asdict(self)).encode(), durable=False)

    def roll(self, files: RunFiles) -> bool:
        """Free what is before the present end. Return False if that is impossible here."""
        size = files.output_size()
        keep_from = (size - self.size) // BLOCK * BLOCK
        if keep_from - self.freed < STEP:
            return True
        if size > LARGEST or not files.free_output(self.freed, keep_from):
            return False
        self.freed = keep_from
        return True

    def read(self, files: RunFiles, offset: int, size: int) -> bytes:
        """Return what follows byte `offset` of the log of an ended run; empty at its end."""
        if self.start is None:
            self._begin(files)
            self.save(files)
        marker, position = self.marker.encode(), offset - self.after
        head = marker[position:] if position < len(marker) else b""
        begin = (self.start or 0) + max(0, position - len(marker))
        return (head + files.read_output(begin, size))[:size]

    def _begin(self, files: RunFiles) -> None:
        total = files.output_size()
        self.start = max(self.after, total - self.size + MARKER_BYTES)
        if self.start > self.after:
            line = files.read_output(self.start, LINE_WITHIN).find(b"\n") + 1
            self.start += line
            missing = self.start - self.after
            self.marker = f"\n==== {missing} bytes of the output are missing here ====\n"
