"""What a program said before it only told that it ended, in words that are no sure sign."""

from collections.abc import Sequence

from retry.signatures.engine import compiled
from retry.signatures.no_errors import tells_of_none
from retry.signatures.ranks import (
    Rank,
    generic_word,
    is_elsewhere,
    is_noise,
    rank_of,
)
from retry.signatures.vague_lines import FAINT, is_advice, shown_words, telling_words

_FAINT = compiled(rf"(?i){FAINT}")
_ANY = compiled(
    rf"(?im){FAINT}|^\s*[A-Z][\w./+-]*: |exit|status|code|killed|fault|abort|terminat|hangup"
    r"|bus err|instruction|exception|trap"
)
PROGRESS = compiled(r"[0-9]%|\.\.\.\s*$|[0-9] ?/ ?[0-9]|=\s*\S+.*=\s*\S")
# `program: Words of a sentence`, without the numbers of progress.
_SAYS = compiled(r"^\s*(?:[Rr]ank [0-9]+|[A-Za-z][\w./+-]*): ([A-Za-z'\"`(-][^0-9=]*[^0-9=:.]\.?)$")
_TELLING = 4
_MUCH = 5


def said_before(lines: Sequence[bytes], at: int, near: int) -> int | None:
    """Return the line near above in which a program says what is wrong, or says something.

    It has no word of failures, so it counts only if all other lines tell how the program ended. So
    does the signal that ended it.
    """
    above = range(at - 1, max(at - near, 0) - 1, -1)
    if not above or _ANY.search(b"\n".join([lines[each] for each in above])) is None:
        return None
    told = [each for each in above if lines[each] and _may_tell(lines[each])]
    faint = (each for each in told if _FAINT.search(lines[each]))
    says = (each for each in told if _says(lines[each]))
    signals = (each for each in above if generic_word(lines[each]))
    return next(faint, next(says, next(signals, _longer(lines, at, above))))


def _longer(lines: Sequence[bytes], at: int, above: Sequence[int]) -> int | None:
    """Return the line near above that tells how something ended, and much more than this one."""
    for each in above:
        ended = rank_of(lines[each]) in {Rank.ADDED, Rank.ENDED}
        if ended and len(shown_words(lines[each])) > _MUCH + len(shown_words(lines[at])):
            return each
    return None


def _may_tell(line: bytes) -> bool:
    return (
        bool(telling_words(line))
        and PROGRESS.search(line) is None
        and rank_of(line) in {Rank.NEVER, Rank.WEAKER}
        and not (is_elsewhere(line) or is_noise(line) or is_advice(line) or tells_of_none(line))
    )


def _says(line: bytes) -> bool:
    said = _SAYS.search(line)
    return said is not None and len(telling_words(said.group(1))) >= _TELLING
