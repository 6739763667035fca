"""The line-by-line difference between two revisions of a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT = 3
"""Unchanged lines to show around a change."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference. `kind` is `same`, `added`, `removed` or `gap` (with no text)."""

    kind: str
    text: str = ""

    @property
    def sign(self) -> str:
        """Return the sign that tells the kinds apart without colours."""
        return {"added": "+", "removed": "-", "gap": "…"}.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Difference:
    """The changed lines with their surroundings, and their numbers."""

    lines: list[Line]

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)


def difference(before: str, after: str) -> Difference:
    """Return the changes that turn `before` into `after`."""
    return Difference(list(_lines(before.splitlines(), after.splitlines())))


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT)
    end = 0
    for group in groups:
        if group[0][1] > end:
            yield Line("gap")
        for kind, low, high, other_low, other_high in group:
            if kind == "equal":
                yield from (Line("same", text) for text in before[low:high])
                continue
            yield from (Line("removed", text) for text in before[low:high])
            yield from (Line("added", text) for text in after[other_low:other_high])
        end = group[-1][2]
    if 0 < end < len(before):
        yield Line("gap")
