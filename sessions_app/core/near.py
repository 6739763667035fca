"""Suggestions for names that do not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

ALIKE = 0.8
"""Minimum similarity of a suggestion: a letter or two may be wrong, not half of them."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean error?` if one of the known words is close, else ""."""
    by_folded = {word.casefold(): word for word in known}
    found = get_close_matches(given[:300].casefold(), by_folded, n=1, cutoff=ALIKE)
    return f"; did you mean {by_folded[found[0]]}?" if found else ""
