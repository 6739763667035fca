"""Two logs beside each other, with the lines that differ marked. Pure."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import dropwhile, zip_longest
from typing import Literal, NamedTuple

AROUND = 3
"""Number of equal lines that are shown around a difference."""

# Times differ in each attempt and say nothing about what went another way.
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
)
# What only a terminal understands.
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Pair(NamedTuple):
    """A line of each log; None where one has no such line. `gap` equal pairs are left out before
    it."""

    left: str | None
    right: str | None
    same: bool
    gap: int = 0


def side_by_side(
    left: Sequence[str], right: Sequence[str], *, cut: Literal["", "start", "end"] = ""
) -> list[Pair]:
    """Return the lines in pairs; equal ones far from any difference are left out.

    Times within lines are not compared. Where the logs were `cut`, lines that only one of them has
    may lie beyond the cut of the other one: they are left out, too. The work is quadratic in the
    number of lines: the caller bounds it.
    """
    pairs = list(_pairs(left, right))
    if cut == "start":
        pairs = list(dropwhile(_one_sided, pairs))
    elif cut == "end":
        pairs = list(dropwhile(_one_sided, pairs[::-1]))[::-1]
    return list(_near(pairs))


def _one_sided(pair: Pair) -> bool:
    return pair.left is None or pair.right is None


def _pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, [_key(line) for line in left], [_key(line) for line in right])
    for tag, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        lines = zip_longest(left[left_from:left_to], right[right_from:right_to])
        yield from (Pair(one, other, tag == "equal") for one, other in lines)


def _key(line: str) -> str:
    return _TIMES.sub("", _COLOURS.sub("", line)).rstrip()


def _near(pairs: Sequence[Pair]) -> Iterator[Pair]:
    differing = [at for at, pair in enumerate(pairs) if not pair.same]
    shown = {
        near
        for at in differing
        for near in range(max(at - AROUND, 0), min(at + AROUND + 1, len(pairs)))
    }
    gap = 0
    for at, pair in enumerate(pairs):
        if at not in shown:
            gap += 1
            continue
        yield pair._replace(gap=gap)
        gap = 0
    if gap and differing:
        yield Pair(None, None, True, gap)
