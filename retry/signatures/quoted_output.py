"""What a command wrote, quoted below the line that says only that it failed."""

from collections.abc import Sequence

from retry.signatures.engine import compiled
from retry.signatures.faint_lines import PROGRESS
from retry.signatures.ranks import Rank, is_elsewhere, is_generic, is_noise, rank_of
from retry.signatures.tracebacks import ERROR_OUTPUT, Failure
from retry.signatures.vague_lines import is_vague, telling_words

_HEADS = ERROR_OUTPUT | {b"Command error:"}
_FAR = 40
"""Lines below the one that failed in which the head of the quoted output may stand."""
_LONGEST = 80
# What bwa, minimap2 and their kind say of their work.
_MESSAGE = compiled(r"^\s*\[M::")


def with_quoted(lines: Sequence[bytes], failure: Failure) -> Failure:
    """Return the failure with the reason that the quoted output gives, if it gives none itself."""
    below = lines[failure.line + 1 : failure.line + _FAR]
    head = next((at for at, line in enumerate(below) if _is_head(line)), -1)
    if head < 0 or not _tells_little(failure.text):
        return failure
    start = failure.line + head + 2
    said = _last_said(lines[start : start + _LONGEST])
    if not said or said in failure.text:
        return failure
    return Failure(failure.text.rstrip(b".:") + b": " + said, failure.place, failure.line)


def _is_head(line: bytes) -> bool:
    return line.endswith(b":") and line.strip() in _HEADS


def _tells_little(text: bytes) -> bool:
    return is_vague(text) or rank_of(text) in {Rank.ADDED, Rank.ENDED, Rank.GENERIC}


def _last_said(quoted: Sequence[bytes]) -> bytes:
    """Return the last line that tells something, up to an empty one; nothing if a signal ended it.

    Of what came before a signal, each run has another line.
    """
    length = next((at for at, line in enumerate(quoted) if at and not line), len(quoted))
    for line in reversed(quoted[:length]):
        if is_generic(line.strip()):
            return b""
        if len(telling_words(line)) > 1 and not _is_progress(line):
            return line.strip()
    return b""


def _is_progress(line: bytes) -> bool:
    shown = PROGRESS.search(line) is not None or _MESSAGE.search(line) is not None
    return shown or is_noise(line) or is_elsewhere(line)
