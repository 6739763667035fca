"""Logs without the lines by which runs tell their progress."""

import json

from reprise_client.this_attempt import PREFIX, progress_line

_HEAD = PREFIX.rstrip()


def tells_progress(line: str) -> bool:
    """Return whether Reprise reads this line as progress; otherwise it is plain text."""
    line = line.rstrip()
    line = line[line.rfind("\r") + 1 :]
    if not line.startswith(_HEAD):
        return False
    try:
        told = json.loads(line[len(_HEAD) :])
        numbers = [type(told[name]) for name in ("step", "of") if told.get(name) is not None]
        texts = [type(told.get(name, "")) for name in ("checkpoint", "note")]
        return bool(
            {*numbers} <= {int, float} and texts == [str, str] and numbers and progress_line(**told)
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


class WithoutProgress:
    """Leaves such lines out of a log that comes in pieces."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, piece: str) -> str:
        """Return what can be shown now. The beginning of such a line is held back."""
        *lines, last = (self._held + piece).split("\n")
        shown = "".join(self._line(line + "\n") for line in lines)
        part = last[last.rfind("\r") + 1 :]
        begins = not self._inside or "\r" in last
        if begins and (part.startswith(_HEAD) or _HEAD.startswith(part)):
            self._held = last
            return shown
        self._held, self._inside = "", bool(last) or self._inside
        return shown + last

    def end(self) -> str:
        """Return what was held back, unless it is such a line."""
        held, self._held = self._held, ""
        return self._line(held) if held else ""

    def _line(self, line: str) -> str:
        inside, self._inside = self._inside, False
        if inside and "\r" not in line:
            return line
        return "" if tells_progress(line) else line


def without_progress(log: bytes) -> bytes:
    """Return a whole log without such lines."""
    if _HEAD.encode() not in log:
        return log
    lines = log.splitlines(keepends=True)
    return b"".join(line for line in lines if not tells_progress(line.decode("utf-8", "replace")))
