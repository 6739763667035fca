"""What belongs to the line of an error: lines around it, without which it tells too little."""

from collections.abc import Sequence
from itertools import takewhile

from retry.signatures.cause_chains import chain_of
from retry.signatures.engine import compiled, simple
from retry.signatures.ranks import Rank, is_generic, rank_of
from retry.signatures.tracebacks import Failure, with_details
from retry.signatures.vague_lines import is_title, is_vague, telling_words

# Heads that only say of which kind an error is.
_TITLE_ONLY = compiled(
    r"^\W*(?:[0-9:]+\s+)?(?:[A-Z]\w+|FOAM FATAL(?: IO)?) (?:Error|ERROR)(?: in \w+ \S+)?:?"
    r"(?: \([^()]*\))?$|^Error occurred during initialization of \w+$"
    r"|^\W+\w*(?:Exception|Error) +: \w+$"
    # With a number, and as MATLAB says in which function of its own it was.
    r"|^(?:[A-Z]\w+ ){1,3}(?:Error|ERROR) -?[0-9]+[:.]?$|^\{?Error using \S+(?: \(line [0-9]+\))?$"
)
# Such a head of dbt, without the time: in which model the error below it is.
_TITLE_ABOVE = compiled(r"^\W*(?:[0-9:]+\s+)?([A-Z]\w+ Error in \w+ \S+(?: \([^()]*\))?)$")
# What javac says of an error, deeper than it.
_LABEL = simple(r"(?:\[ERROR\])?+\s{2,}+((?:symbol|location|required|found|reason): .*)$")
# Terraform tells in a box which resource it was.
_OF_TERRAFORM = b"\xe2\x94\x82 Error: "
_RESOURCE = simple(r"\xe2\x94\x82\s++(with [^\s,]++),$")
_MOST_BETWEEN = 3
"""Lines between an error and its labels at most: the code, and what points to it."""
# What S3 did not tell, after a comma.
_EMPTY = (b", host id:", b", request id:")
_STACK_FOLLOWS = b"error stack:"
_FRAME_OF_MPICH = simple(r"\w++\([0-9]++\)\.*+: ?+(.*)$")
_MOST_FRAMES = 30
# Open MPI tells first in which function it was, and some lines below what it was.
_CALL_OF_OPEN_MPI = b"*** An error occurred in "
_CLASS_OF_OPEN_MPI = compiled(r"\*\*\* (MPI_ERR_\w+.*)$")
_NEAR = 5
# The system's words for what it did not do, and nothing else: what it was stands above.
_SYSTEM_ALONE = compiled(
    r"(?i)^\W*(?:\[?errno -?[0-9]+\]?\W*)?(?:no such file or directory|permission denied"
    r"|operation not permitted|connection (?:refused|timed out|reset by peer)|broken pipe"
    r"|no space left on device|disk quota exceeded|input/output error|file exists"
    r"|is a directory|not a directory|directory not empty|too many open files|file too large"
    r"|cannot allocate memory|out of memory|resource temporarily unavailable"
    r"|device or resource busy|text file busy|invalid argument|bad file descriptor"
    r"|read-only file system|stale file handle|no route to host|network is unreachable"
    r"|name or service not known|address already in use|exec format error"
    r"|argument list too long|invalid cross-device link|no such device(?: or address)?"
    r"|host is down|transport endpoint is not connected)\W*$"
)
# Parts of a record that say more than its head.
_FIELD = compiled(
    r"(?i)^[^\w:]*((?:(?:(?:error|response|status) )?(?:code|message|text)|status|msg|reason|cause"
    r"|caused by|details?|description|explanation)"
    r" *[:=]) +(\S.*)$"
)
_FIELDS = 6
"""Lines below a vague one in which a record may say more."""
# A level of a log that is filled up, with the message behind it.
_LEVEL = simple(r"(?:(?!ERROR|FATAL|CRIT)\S++ ++){0,3}+(?:ERROR|FATAL|CRITICAL)\b[:\]]?+ {2,}+")


def with_more(lines: Sequence[bytes], at: int) -> Failure:
    """Return the line, and what belongs to it: the chain of causes, or lines that follow."""
    chain = chain_of(lines, at)
    if chain is not None:
        return Failure(chain, b"", at)
    line = lines[at].strip()
    if line.endswith(_STACK_FOLLOWS):
        return Failure(b" ".join([line, *_innermost(lines[at + 1 :])]), b"", at)
    if _CALL_OF_OPEN_MPI in line and (found := _class_of_open_mpi(lines[at + 1 : at + _NEAR])):
        return Failure(line + b": " + found, b"", at)
    if _SYSTEM_ALONE.search(line) is not None and (before := _before(lines, at)):
        return Failure(before + b": " + line, b"", at)
    if is_vague(line) and (fields := _fields(lines, at)):
        return Failure(b" ".join([line, *fields]), b"", at)
    following = _following(lines, at)
    head = line.endswith((b":", b": |", b": >")) and not line.endswith(_EMPTY)
    more = head or following.startswith(b"> ") or _TITLE_ONLY.search(line)
    if following and not is_generic(following) and (more or _goes_on(lines, at, following)):
        line += b" " + following
    line = with_details(line, lines[at + 1 : at + 4])
    return Failure(b" ".join([*_title_above(lines, at), line, *_labels(lines, at)]), b"", at)


def is_continued(lines: Sequence[bytes], at: int) -> bool:
    """Return whether the line below belongs to one that tells nothing alone."""
    following = _following(lines, at)
    return bool(following) and not is_generic(following) and _goes_on(lines, at, following)


def is_bare_title(line: bytes) -> bool:
    """Return whether a line only says of which kind an error is."""
    return _TITLE_ONLY.search(line) is not None


def leads_to_nothing(lines: Sequence[bytes], at: int) -> bool:
    """Return whether neither a vague head nor the line below it tells more than that it ended."""
    below = next(filter(None, lines[at + 1 : at + 3]), b"")
    return is_vague(lines[at]) and rank_of(below) in {Rank.ADDED, Rank.ENDED, Rank.GENERIC}


def tells_below(lines: Sequence[bytes], at: int) -> bool:
    """Return whether the record of a vague line says more below it."""
    return bool(_fields(lines, at))


def _title_above(lines: Sequence[bytes], at: int) -> list[bytes]:
    """Return the title directly above a line that has none itself."""
    match = _TITLE_ABOVE.search(lines[at - 1]) if at > 0 and lines[at - 1] else None
    return [bytes(match.group(1)) + b":"] if match is not None else []


def _labels(lines: Sequence[bytes], at: int) -> list[bytes]:
    """Return the labelled lines below an error, which are of it; code may stand between."""
    if lines[at].startswith(_OF_TERRAFORM):
        resources = map(_RESOURCE.match, lines[at + 1 : at + 1 + _FIELDS])
        return [match.group(1) for match in resources if match is not None][:1]
    below = lines[at + 1 : at + 2 + _MOST_BETWEEN]
    start = next((n for n, line in enumerate(below) if _LABEL.match(line)), None)
    if start is None or not all(line[:1].isspace() for line in below[:start]):
        return []
    labels = takewhile(bool, map(_LABEL.match, lines[at + 1 + start : at + 3 + start]))
    return [match.group(1) for match in labels if match is not None]


def _following(lines: Sequence[bytes], at: int) -> bytes:
    """Return the next line that is not only an ornament, if it comes soon."""
    return next((each.strip() for each in lines[at + 1 : at + 3] if each.strip(b" #=-*")), b"")


def _innermost(lines: Sequence[bytes]) -> list[bytes]:
    """Return what the last frame of MPICH's stack says: the frames above it only lead there."""
    frames = [*takewhile(bool, map(_FRAME_OF_MPICH.match, lines[:_MOST_FRAMES]))]
    return [said for frame in frames if frame and (said := frame.group(1).strip())][-1:]


def _class_of_open_mpi(lines: Sequence[bytes]) -> bytes:
    matches = (_CLASS_OF_OPEN_MPI.search(line) for line in lines)
    return next((bytes(match.group(1)) for match in matches if match is not None), b"")


def _before(lines: Sequence[bytes], at: int) -> bytes:
    """Return the line before, if it says what the system did not do."""
    before = lines[at - 1].strip() if at > 0 else b""
    return b"" if len(telling_words(before)) <= 1 else before.rstrip(b".:")


def _fields(lines: Sequence[bytes], at: int) -> list[bytes]:
    """Return the parts of a record that say more, at most two of them.

    A log may put the same label before each line.
    """
    below = [line for line in lines[at + 1 : at + 1 + _FIELDS] if line]
    found = [match for line in below if (match := _FIELD.search(_unlabelled(line, lines[at])))]
    return [b" ".join(match.groups()) for match in found][:2]


def _unlabelled(line: bytes, above: bytes) -> bytes:
    """Return a line without the label that it has in common with the one above."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(line, above, strict=False))
    common = bytes(each for each, _ in same).rpartition(b" ")[0]
    return line if common[-1:].isalnum() else line[len(common) :]


def _goes_on(lines: Sequence[bytes], at: int, following: bytes) -> bool:
    """Return whether the line below goes on: below a bare title, or aligned with the message."""
    if at + 1 < len(lines) and (level := _LEVEL.match(lines[at])) is not None:
        below = lines[at + 1]
        if level.end() > 1 and len(below) - len(below.lstrip()) == level.end():
            return True
    return (
        is_title(lines[at])
        and len(telling_words(following)) > 1
        and rank_of(following) not in {Rank.NOISE, Rank.ADDED, Rank.ENDED, Rank.GENERIC}
    )
