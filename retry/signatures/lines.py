"""The lines of an output, without what launchers, runtimes and terminals put before them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retry.signatures.engine import compiled, replaced, simple

MOST_BYTES = 16 * 1024
"""Bytes of an output that are looked at: its last ones."""
_OWN_LINES = b"::reprise::"
_BLOCK = 32
"""Lines that one search passes over."""

_TIME = (
    r"\[?(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]|[0-9]{2}/[0-9]{2}/[0-9]{2} )"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]++)?(?:Z|[+-][0-9]{2}:?[0-9]{2}| UTC)?\]?:?[ \t]"
)
_LABEL = (
    r"\n(?:"
    rf"{_TIME}(?:std(?:err|out) [FP] )?"
    r"|\[(?:rank|default|Rank |default_rank)[0-9]++\]:? ?"  # torchrun
    r"|\[[0-9]++,[0-9]++\]<std(?:err|out)>:? ?"  # mpirun --tag-output
    r"|\[[0-9]++\] "  # mpiexec -prepend-rank
    r"|[0-9]++: "  # srun --label
    r"|\((?:[\w.:<>]++ )?pid=[0-9]++[^)]*+\) "  # Ray
    r"|(?:STDERR|STDOUT|stderr|stdout|SUBPROCESS)(?: \||:) "
    r"|[\w.-]++ ++\| "  # Compose
    r"|E   (?:    )?"  # pytest
    r")++"
)
_LABELS = simple(_LABEL)
# RE2 reads the whole at once, and needs no possessive repetitions.
_ANY_LABEL = compiled(_LABEL.replace("++", "+").replace("*+", "*").replace("?+", "?"))
_TERMINAL = compiled(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*\x07|\x1b.")
_CONTROL = bytes(code for code in range(0x20) if code not in {0x09, 0x0A}) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Output:
    """The last 16 KiB of an output without labels, codes of terminals and own lines.

    `text` is what `lines` have between them: one search in it tells whether to look at each line.
    """

    lines: tuple[bytes, ...]
    text: bytes

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


def read_output(output: str) -> Output:
    """Return the lines of an output that may tell a failure."""
    tail = output[-MOST_BYTES:].encode("utf-8", "replace")[-MOST_BYTES:]
    if b"\r" in tail:
        tail = tail.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    tail = replaced(_TERMINAL, lambda _match: b"", tail).translate(None, _CONTROL)
    tail = b"\n" + tail
    if _ANY_LABEL.search(tail) is not None:
        tail = _LABELS.sub(b"\n", tail)
    tail = tail[1:]
    lines = [line.rstrip() for line in tail.split(b"\n")]
    if _OWN_LINES in tail:
        lines = [line for line in lines if not line.lstrip().startswith(_OWN_LINES)]
        tail = b"\n".join(lines)
    return Output(tuple(lines), tail)


def last_matching(
    lines: Sequence[bytes], places: Sequence[int], pattern: Any
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines in these places, the last one first, but for blocks of them in which the
    pattern is not found."""
    for end in range(len(places), 0, -_BLOCK):
        block = places[max(0, end - _BLOCK) : end]
        if pattern.search(b"\n".join([lines[at] for at in block])) is not None:
            yield from ((at, lines[at]) for at in reversed(block))
