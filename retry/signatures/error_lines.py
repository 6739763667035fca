"""Which line of an output tells the failure, if no traceback and no stack does."""

from collections.abc import Container, Sequence
from itertools import islice

from base.runlines.dumps import is_frame
from retry.signatures.engine import compiled
from retry.signatures.faint_lines import said_before
from retry.signatures.lines import Output, last_matching
from retry.signatures.more_lines import (
    is_bare_title,
    is_continued,
    leads_to_nothing,
    tells_below,
    with_more,
)
from retry.signatures.no_errors import without_none
from retry.signatures.quoted_output import with_quoted
from retry.signatures.ranks import TELLS, Rank, generic_word, has_words, is_noise, rank_of
from retry.signatures.signs import GPU, Sign
from retry.signatures.tracebacks import Failure
from retry.signatures.vague_lines import is_advice, is_count, is_sum, is_vague, telling_words

_NO_GPU_ERROR = compiled(
    r"CUDA kernel errors might|CUDA_LAUNCH_BLOCKING|Some NCCL operations|failed call to cuInit"
    r"|Unable to register|\[Proxy Service|NCCL INFO|[Ww]arning:"
)
_CODE_OF_NPM = compiled(r"^npm (?:ERR!|error) code (E[A-Z0-9]+)$")
_NO_MESSAGE_OF_NPM = compiled(r"^npm (?:ERR!|error) (?:code|errno|syscall|path|dest|command|$)")
# Which package it was; else it stands in an address, or not at all.
_NO_PACKAGE = compiled(r"'(@?[\w./-]+)(?:@[^']*)?' is not in (?:this|the npm) registry")
# What leads to others, and counts.
_NO_LEAD = compiled(r":$|\b[0-9]+ (?:\w+ )?failed\b")
_TIMES = compiled(r"^(?:real|user|sys)\s+[0-9]|^\++ |^[0-9.]+user [0-9.]+system ")
_ORNAMENTS = (b"=", b"-", b"*", b"#", b"~")
_RULES = b" \t=-_*#|+~"
_MOST_JUDGED = 100
"""Lines that are judged at most, the last ones: a loop may print an error in each of its rounds."""


_ENDING = 3
_LED = 3
_JUST = 6
_NEAR = 16
"""Lines above a vague one in which the reason may stand."""


def gpu_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line of CUDA, NCCL or of a `RuntimeError:`."""
    if Sign.GPU not in output.signs:
        return None
    lines = output.lines
    for at, line in last_matching(lines, range(len(lines)), GPU):
        if at in passed_over or not GPU.search(line) or _NO_GPU_ERROR.search(line):
            continue
        if line.startswith(b"RuntimeError: ") and is_vague(line):
            continue
        if line.endswith(b"Error:"):
            return with_more(lines, at)
        before, warning, said = line.partition(b"NCCL WARN ")
        return Failure(warning + said if warning else before, b"", at)
    return None


def error_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line of the highest rank, with what belongs to it."""
    lines = output.lines
    best, chosen = Rank.NEVER, -1
    last = (at for at in reversed(range(len(lines))) if lines[at] and at not in passed_over)
    if any(is_frame(line) for line in lines[-_ENDING:] if line):
        # What failed is at the head of the dump.
        last = (at for at in last if not is_frame(lines[at]))
    candidates = [*islice(last, _MOST_JUDGED)][::-1]
    for at, line in last_matching(lines, candidates, TELLS):
        rank = rank_of(line)
        if rank > best:
            best, chosen = rank, at
        if best is Rank.LIKE_ONE:
            break
    sure = best in {Rank.WEAKER, Rank.LIKE_ONE}
    if chosen < 0 or not (sure or has_words(lines[chosen]) or _has_words(output.text)):
        return None
    told = _better_line(lines, chosen, best)
    if told == chosen and _tells_little(lines, chosen, best):
        said = said_before(lines, chosen, _NEAR)
        if said is not None:
            return Failure(lines[said].strip(), b"", said)
    failure = with_quoted(lines, with_more(lines, told))
    sums = best is Rank.LIKE_ONE and told == chosen and is_sum(lines[chosen])
    before = _told_before(lines, chosen) if sums else None
    if before is None:
        return failure
    return Failure(lines[before].strip() + b"; " + failure.text, b"", chosen)


def _better_line(lines: Sequence[bytes], at: int, rank: Rank) -> int:
    """Return the line near this one that tells the reason, if this one does not."""
    if rank in {Rank.WEAKER, Rank.LIKE_ONE}:
        found = _reason_above(lines, at)
        counts = found == at and is_count(lines[at])
        below = range(at + 1, min(at + _NEAR, len(lines))) if counts else range(0)
        return _telling_end(lines, below, found)
    above = rank is Rank.ADDED and is_vague(lines[at])
    return _telling_end(lines, range(max(at - _NEAR, 0), at) if above else range(0), at)


def _telling_end(lines: Sequence[bytes], near: Sequence[int], at: int) -> int:
    """Return the last of the lines near that say how all ended, but not without a reason."""
    for each, told in last_matching(lines, near, TELLS):
        plain = not told.lstrip().startswith(_ORNAMENTS) and len(telling_words(told)) > 1
        if plain and rank_of(told) is Rank.ADDED and not (is_vague(told) or is_advice(told)):
            return each
    return at


def _has_words(text: bytes) -> bool:
    return has_words(text) and has_words(without_none(text))


def _told_before(lines: Sequence[bytes], at: int) -> int | None:
    """Return the line of an error just above, if it has the reason that this one has not."""
    for each, told in last_matching(lines, range(max(at - _JUST, 0), at), TELLS):
        enough = len(telling_words(told)) > 1 and not _NO_LEAD.search(told)
        if enough and rank_of(told) is Rank.LIKE_ONE and not (is_vague(told) or is_sum(told)):
            return each
    return None


def _tells_little(lines: Sequence[bytes], at: int, rank: Rank) -> bool:
    """Return whether a line tells only that something ended, and not by which signal."""
    signal = generic_word(lines[at])
    if signal is not None:
        return not signal
    vague = is_vague(lines[at]) and not (is_bare_title(lines[at]) or is_continued(lines, at))
    return rank in {Rank.ENDED, Rank.ADDED} or (vague and not tells_below(lines, at))


def _reason_above(lines: Sequence[bytes], at: int) -> int:
    """Return the line near above that tells the reason, if this one does not, nor those below.

    It may also say the same as the end of this line, and go on.
    """
    line = lines[at].strip()
    if line.endswith(b":") and not leads_to_nothing(lines, at):
        return at
    goes_on = line.rpartition(b": ")[2] + b": "
    vague = is_vague(line) and not is_bare_title(line) and not tells_below(lines, at)
    above = range(max(at - _NEAR, 0), at)
    if not vague and not any(goes_on in lines[each] for each in above):
        return at
    found = at
    for each, told in last_matching(lines, above, TELLS):
        rank = rank_of(told)
        if rank is Rank.LIKE_ONE and (goes_on in told or (vague and _is_better(lines, each))):
            return each
        if vague and found == at and _may_do(line, told, at - each, rank):
            found = each
    return found


def _is_better(lines: Sequence[bytes], at: int) -> bool:
    """Return whether a line tells a reason, or is the title of one that stands below it."""
    return not lines[at].endswith(b":") and (not is_vague(lines[at]) or is_continued(lines, at))


def _may_do(vague: bytes, told: bytes, lines: int, rank: Rank) -> bool:
    """Return whether a line is better than one so far below it that tells no reason.

    What ends with a colon leads to the lines next to it. Of two vague lines, that with more words
    is the better one.
    """
    words = len(telling_words(told))
    if told.endswith(b":"):
        return lines >= _LED and rank is Rank.LIKE_ONE and words > 0
    if rank not in {Rank.WEAKER, Rank.LIKE_ONE}:
        return False
    return words > 1 and (not is_vague(told) or words > len(telling_words(vague)) + 1)


def npm_error(output: Output) -> Failure | None:
    """Return the code that npm gives for an error of its own, with the first words about it."""
    lines = output.lines if Sign.NPM in output.signs else ()
    for at in range(len(lines) - 1, -1, -1):
        match = _CODE_OF_NPM.search(lines[at]) if lines[at].startswith(b"npm ") else None
        if match is None or match.group(1) == b"ELIFECYCLE":
            continue
        said = next((line for line in lines[at:] if not _NO_MESSAGE_OF_NPM.search(line)), b"")
        said = said.removeprefix(b"npm ERR! ").removeprefix(b"npm error ")
        named = next(filter(None, map(_NO_PACKAGE.search, lines[at:])), None)
        package = bytes(named.group(1)) + b": " if named is not None else b""
        return Failure(b"npm " + match.group(1) + b": " + package + said, b"", at)
    return None


def _is_beside(line: bytes) -> bool:
    """Return whether a line tells times of a shell, or says of itself that it is no error.

    Or it says hardly more than that there were none.
    """
    if _TIMES.search(line) is not None or is_noise(line):
        return True
    left = without_none(line)
    return left != line and is_vague(left)


def last_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line that is not empty, nor the time that a shell tells.

    If it has hardly a word, a line near above may say what is wrong.
    """
    lines = output.lines
    last = (at for at in reversed(range(len(lines))) if lines[at].strip(_RULES))
    told = [*islice((at for at in last if at not in passed_over), _NEAR)]
    plain = (each for each in told if not _is_beside(lines[each]))
    at = next(plain, told[0] if told else -1)
    said = said_before(lines, at, _NEAR) if at >= 0 and is_vague(lines[at]) else None
    at = at if said is None else said
    return Failure(lines[at].strip(), b"", at) if at >= 0 else None
