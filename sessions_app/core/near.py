"""What was meant, where something is named that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches

ALIKE = 0.8
"""How alike words are of which one was meant: a letter or two are wrong, not half of them."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean error?`, if one of the known words is close to what was given."""
    by_folded = {word.casefold(): word for word in known}
    found = get_close_matches(given[:300].casefold(), by_folded, n=1, cutoff=ALIKE)
    return f"; did you mean {by_folded[found[0]]}?" if found else ""
