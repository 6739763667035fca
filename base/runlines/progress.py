"""The lines by which a run tells how far it is. Pure.

    ::reprise:: {"step": 40, "of": 100, "checkpoint": "s3://bucket/40", "note": "epoch 2"}

Only `step` is required. A line that breaks any rule is plain text.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

PREFIX = b"::reprise::"
CHECKPOINT_BYTES = 2048
"""The longest checkpoint, in bytes of UTF-8."""
NOTE_LENGTH = 200
"""The longest note, in characters."""
MOST_BYTES = 16 * 1024
"""The longest line: JSON may write six bytes for one."""
_KEYS = frozenset({"step", "of", "checkpoint", "note"})
_STARTS = (b"\n", b"\r")
"""What is before a line. On a terminal it also begins anew after a carriage return, as it does
behind the bar of tqdm, which has no end of its line."""
_TEXT = b"-"
"""What is kept of a line that is plain text."""
_EXACT = 2**53
"""Below it, a float is a whole number exactly."""

Number = int | float


@dataclass(frozen=True, slots=True)
class Progress:
    """One line: `step` of `of` steps (None: unknown); "" for no checkpoint and no note."""

    step: Number
    of: Number | None = None
    checkpoint: str = ""
    note: str = ""


def read_line(line: bytes) -> Progress | None:
    """Return what a line without its end tells; None if it is plain text."""
    if not line.startswith(PREFIX) or len(line) > MOST_BYTES:
        return None
    try:
        text = line[len(PREFIX) :].decode("utf-8")
        found = json.loads(text, parse_constant=_refuse, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "step" not in found or not found.keys() <= _KEYS:
        return None
    return _read(found)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _read(found: dict[str, Any]) -> Progress | None:
    step, of = number(found["step"]), found.get("of")
    total = None if of is None else number(of)
    checkpoint, note = found.get("checkpoint", ""), found.get("note", "")
    if step is None or (of is not None and total is None):
        return None
    if not (is_plain(checkpoint) and is_plain(note)):
        return None
    if len(checkpoint.encode()) > CHECKPOINT_BYTES or len(note) > NOTE_LENGTH:
        return None
    return Progress(step, total, checkpoint, note)


def number(value: object) -> Number | None:
    """Return a number that is finite and at least 0, whole ones as `int`; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    if not math.isfinite(as_float) or as_float < 0:
        return None
    if as_float < _EXACT and as_float.is_integer():
        return int(as_float)
    return as_float


def is_plain(value: object) -> bool:
    """Return whether the value is text without control characters and lone surrogates."""
    if not isinstance(value, str):
        return False
    return not any(
        char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in value
    )


def is_progress(line: bytes) -> bool:
    """Return whether a line, with or without its end, is one of these."""
    return PREFIX in line and read_line(_last_part(line.rstrip())) is not None


def without_progress(output: str) -> str:
    """Return the lines of an output that are none of these."""
    if PREFIX.decode() not in output:
        return output
    lines = output.split("\n")
    return "\n".join(line for line in lines if not is_progress(line.encode("utf-8", "replace")))


def _last_part(line: bytes) -> bytes:
    """Return what is behind the last carriage return."""
    return line[line.rfind(b"\r") + 1 :]


class LineReader:
    """Finds such lines in an output that comes in pieces.

    It keeps no more than one line, and of a line that cannot be one of these nothing.
    """

    def __init__(self, *, inside: bool = False) -> None:
        """`inside`: the first piece may begin in the middle of a line, which is skipped."""
        self._rest = _TEXT if inside else b""

    @property
    def unread(self) -> int:
        """Return the bytes of the last line that were read but may still become one of these."""
        return 0 if self._rest == _TEXT else len(self._rest)

    @property
    def inside(self) -> bool:
        """Return whether the output read so far ends in the middle of a line that is text."""
        return self._rest == _TEXT

    def feed(self, piece: bytes) -> list[Progress]:
        """Return what the lines that end in this piece tell, in order."""
        found: list[Progress] = []
        end = piece.rfind(b"\n") + 1
        if not end:
            self._keep(self._rest + piece)
            return found
        whole = self._rest + piece[:end]
        at = whole.find(PREFIX)
        while at >= 0:
            stop = whole.find(b"\n", at)
            if at == 0 or whole[at - 1 : at] in _STARTS:
                told = read_line(whole[at:stop].rstrip())
                if told is not None:
                    found.append(told)
            at = whole.find(PREFIX, at + 1)
        self._keep(piece[end:])
        return found

    def end(self) -> list[Progress]:
        """Return what the last line tells if it has no end, since no more will come."""
        rest, self._rest = self._rest, b""
        told = read_line(_last_part(rest.rstrip()))
        return [] if told is None else [told]

    def _keep(self, rest: bytes) -> None:
        end = b"\r" if rest.endswith(b"\r") else b""
        last = _last_part(rest.rstrip(b"\r"))
        if last[: len(PREFIX)] == PREFIX[: len(last)] and len(last) <= MOST_BYTES:
            self._rest = last + end
        else:
            self._rest = end or _TEXT
