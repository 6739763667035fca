"""How this folder compiles its patterns: on bytes, on a linear-time engine (RE2).

A search by RE2 costs a microsecond before it reads a byte, and a replacement two for each match. So
what is asked of hundreds of lines runs on Python's engine (`simple`), or for many lines at once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# Output may hold any bytes; with UTF-8, RE2 would not match those that are none.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1

Replace = Callable[[Any], bytes]


def compiled(pattern: str) -> Any:
    """Compile a pattern of ASCII characters for bytes."""
    return re2.compile(pattern.encode("ascii"), _OPTIONS)


def simple(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern of ASCII characters for Python's own engine.

    Each of its repetitions is possessive, or ends where the next part begins, so that it never goes
    back over what it has read.
    """
    return re.compile(pattern.encode("ascii"))


def replaced(pattern: Any, by: Replace, text: bytes) -> bytes:
    """Return the text with each match of the pattern replaced by what `by` returns for it."""
    parts: list[bytes] = []
    end = 0
    for match in pattern.finditer(text):
        start, after = match.span()
        parts += (text[end:start], by(match))
        end = after
    return b"".join([*parts, text[end:]]) if parts else text


class SearchSet:
    """Patterns that one search of a text looks for at once. It costs as much as that of one."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._set = re2.Set.SearchSet(_OPTIONS)
        for pattern in patterns:
            self._set.Add(pattern.encode("ascii"))
        # An empty pattern, which every text has: if it is not found, the search ran out of memory.
        self._last = self._set.Add(b"")
        self._set.Compile()

    def found(self, text: bytes) -> Sequence[int]:
        """Return the numbers of the patterns that are in the text, in any order.

        The number of patterns is always among them, as of one that is found everywhere.
        """
        found: Sequence[int] = self._set.Match(text) or ()
        return found if self._last in found else range(self._last + 1)
