"""The lines of an output, without what launchers, runtimes and terminals put before them."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from retry.signatures.engine import simple
from retry.signatures.progress_bars import apart
from retry.signatures.signs import LABEL, Sign, signs_in, signs_without_labels

MOST_BYTES = 16 * 1024
"""Bytes of an output that are looked at: its last ones."""
_OWN_LINES = b"::reprise::"
_BLOCK = 32
"""Lines that one search passes over."""

_LABELS = simple(rf"\n(?:{LABEL})++")
_TERMINAL = simple(r"\x1b\[[0-9;?]*+[ -/]*+[@-~]|\x1b\][^\x07\x1b]*+\x07|\x1b.")
_CONTROL = bytes(code for code in range(0x20) if code not in {0x09, 0x0A}) + b"\x7f"


class Output:
    """An output, or its end, without labels, codes of terminals and own lines.

    `signs` and searches in `text` tell whether to look at `lines` at all.
    """

    def __init__(self, text: bytes) -> None:
        signs = signs_in(text)
        if Sign.TERMINAL in signs or Sign.CONTROL in signs:
            text = _TERMINAL.sub(b"", text).translate(None, _CONTROL)
            signs = signs_in(text)
        if Sign.GLUED in signs:
            text = apart(text)
            signs = signs_in(text)
        if Sign.LABEL in signs:
            text = _LABELS.sub(b"\n", b"\n" + text)[1:]
            signs = signs_without_labels(text, signs)
        if Sign.OWN in signs:
            lines = text.split(b"\n")
            text = b"\n".join([line for line in lines if not line.lstrip().startswith(_OWN_LINES)])
        self.text, self.signs = text, signs

    @cached_property
    def lines(self) -> tuple[bytes, ...]:
        """Return what the text has between its ends of lines."""
        lines = self.text.split(b"\n")
        return tuple([line.rstrip() for line in lines] if Sign.SPACES in self.signs else lines)

    def with_text(self, wanted: bytes) -> list[int]:
        """Return the lines that contain a text, in order: by searches in the whole."""
        found: list[int] = []
        line = end = 0
        while (at := self.text.find(wanted, end)) >= 0:
            line += self.text.count(b"\n", end, at)
            found.append(line)
            end = self.text.find(b"\n", at)
            if end < 0:
                break
        return found


def end_of(output: str) -> bytes:
    """Return the last 16 KiB of an output."""
    tail = output[-MOST_BYTES:].encode("utf-8", "replace")[-MOST_BYTES:]
    if b"\r" in tail:
        tail = tail.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return tail


def last_matching(
    lines: Sequence[bytes], places: Sequence[int], pattern: Any
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines in these places, the last one first, but for blocks of them in which the
    pattern is not found."""
    for end in range(len(places), 0, -_BLOCK):
        block = places[max(0, end - _BLOCK) : end]
        if pattern.search(b"\n".join([lines[at] for at in block])) is not None:
            yield from ((at, lines[at]) for at in reversed(block))
