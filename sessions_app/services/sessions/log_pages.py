"""Parts of a log for people: a page of lines, a search, the line of the error.

A part is read by byte offset, piece by piece, so that no long log is ever in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from uuid import UUID

from sessions_app.core.error_lines import error_pattern
from sessions_app.services.sessions.logs import log_read, log_size

PAGE_LINES = 500
PAGE_BYTES = 128 * 1024
"""Most lines and bytes of a page."""
SEARCHED_BYTES = 16 * 1024 * 1024
"""Most bytes that one search reads; the whole of a log under the usual cap."""
HITS = 100
"""Most hits that are listed; the others are counted."""
HIT_BYTES = 400
"""Most bytes of a hit's line that are shown."""


class Line(NamedTuple):
    """One line without its end, at byte `offset` of the log."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines from byte `start` to before `end`, of a log of `size` bytes.

    `rest` is the last line, if it has no end yet; the next page begins with it. `reached` is the
    byte after everything that is shown.
    """

    start: int
    end: int
    size: int
    reached: int
    lines: list[Line]
    rest: Line | None = None

    @property
    def shown(self) -> list[Line]:
        """Return all lines, also the one without an end."""
        return [*self.lines, *([self.rest] if self.rest else [])]


@dataclass(slots=True)
class Found:
    """The result of a search in the bytes from `start` to `stop` of `size`."""

    start: int
    size: int
    stop: int = 0
    count: int = 0
    hits: list[Line] = field(default_factory=list)


def log_page(session_id: UUID, start: int, lines: int = PAGE_LINES) -> LogPage:
    """Return the page of lines that begins at byte `start`; empty after the end of the log.

    A line longer than a page is cut.
    """
    size = log_size(session_id)
    data = _bytes(session_id, start, PAGE_BYTES) if start < size else b""
    *whole, rest = data.split(b"\n")
    last = len(whole) <= lines and len(data) < PAGE_BYTES
    if not whole and not last:
        return LogPage(start, start + len(data), size, start + len(data), [_line(start, rest)])
    listed, end = [], start
    for raw in whole[:lines]:
        listed.append(_line(end, raw))
        end += len(raw) + 1
    if not (last and rest):
        return LogPage(start, end, size, end, listed)
    return LogPage(start, end, size, end + len(rest), listed, _line(end, rest))


def _line(offset: int, raw: bytes) -> Line:
    return Line(offset, raw.decode("utf-8", "replace"))


def log_page_before(session_id: UUID, end: int, lines: int = PAGE_LINES) -> int:
    """Return where the page begins that ends at byte `end`."""
    begin = max(0, end - PAGE_BYTES)
    data = _bytes(session_id, begin, end - begin)
    # The end of the last line of that page begins no further line.
    position = len(data) - 1
    for _ in range(lines):
        position = data.rfind(b"\n", 0, max(position, 0))
        if position < 0:
            break
    if position >= 0:
        return begin + position + 1
    # The page is cut at its bytes: begin with a whole line, if it has one.
    first = data.find(b"\n", 0, len(data) - 1) if begin else -1
    return begin + first + 1


def log_last_page(session_id: UUID, lines: int = PAGE_LINES) -> LogPage:
    """Return the last page of the log."""
    return log_page(session_id, log_page_before(session_id, log_size(session_id), lines), lines)


def log_search(session_id: UUID, wanted: str, start: int = 0) -> Found:
    """Return the lines that contain `wanted`, from byte `start`; ASCII letters of either case."""
    needle = wanted.encode("utf-8", "replace").lower()
    found = Found(start, log_size(session_id), start)
    for offset, block in _blocks(session_id, start, SEARCHED_BYTES):
        lowered = block.lower()
        _collect(found, offset, block, partial(lowered.find, needle))
        found.stop = offset + len(block)
    return found


def _collect(found: Found, offset: int, block: bytes, find: Callable[[int], int]) -> None:
    at = find(0)
    while at >= 0:
        found.count += 1
        stop = block.find(b"\n", at)
        stop = len(block) if stop < 0 else stop
        if len(found.hits) < HITS:
            begin = block.rfind(b"\n", 0, at) + 1
            shown = block[begin : min(stop, begin + HIT_BYTES)]
            found.hits.append(_line(offset + begin, shown))
        at = find(stop + 1) if stop < len(block) else -1


def log_error(session_id: UUID, message: str = "") -> int | None:
    """Return where the first line begins that looks like an error, or that has the first line of
    `message`. None if there is none among the bytes that one search reads."""
    pattern = error_pattern(message)
    for offset, block in _blocks(session_id, 0, SEARCHED_BYTES):
        match = pattern.search(block)
        if match is not None:
            return offset + block.rfind(b"\n", 0, match.start()) + 1
    return None


def _blocks(session_id: UUID, start: int, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines with their offsets, at most `most` bytes in all.

    A line longer than a page is cut.
    """
    kept, offset, read = b"", start, 0
    for piece in log_read(session_id, start):
        block = kept + piece[: most - read]
        read += len(piece)
        cut = block.rfind(b"\n") + 1 or (len(block) if len(block) > PAGE_BYTES else 0)
        if cut:
            yield offset, block[:cut]
        kept, offset = block[cut:], offset + cut
        if read >= most:
            break
    if kept:
        yield offset, kept


def _bytes(session_id: UUID, start: int, count: int) -> bytes:
    parts, missing = [], count
    for piece in log_read(session_id, start):
        parts.append(piece[:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return b"".join(parts)
