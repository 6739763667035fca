"""Python's tracebacks: the last exception that tells something, and where it was raised."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from retry.signatures.engine import compiled, simple
from retry.signatures.line_prefixes import Prefix
from retry.signatures.lines import Output
from retry.signatures.notebooks import frame_of_notebook, name_before
from retry.signatures.ranks import Rank, rank_of
from retry.signatures.signs import Sign
from retry.signatures.vague_lines import is_vague

_HEADER = b"Traceback (most recent call last)"
_FRAME_START = b'File "'
_FRAME = simple(r"File \"([^\"]*+)\", line [0-9]++(?:,? in (.+))?")
_EXCEPTION = simple(r"[A-Za-z_][\w.]*+(?:\([\w ,.]++\))?+(?:: |:$|$)")
_NAMED_ONE = compiled(
    r"^(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Warning|Group)\b"
)
# Spark brings its own Python code.
_STANDARD = simple(r"/lib(?:64)?/python[0-9.]*+/|/python/pyspark/|/py4j-")
_RICH_FRAME = compiled(r"^\xe2\x94\x82 (\S+\.py):[0-9]+ in (\S+)")
# Exceptions of those that only started the program that failed.
_WRAPPERS = simple(
    r"(?:^|\.)(?:ChildFailedError|CalledProcessError|SystemExit|KeyboardInterrupt|SignalException"
    r"|ProcessExitedException|Py4JJavaError|RayTaskError\([\w.]++\)|RayTaskError"
    r"|PapermillExecutionError|CellExecutionError)\b"
)
# That something ended, with nothing behind it that tells why.
_ENDED_ONLY = compiled(
    r"(?i)\b(?:returned (?:a )?non-?zero exit(?: (?:status|code))?(?: -?[0-9]+)?"
    r"|(?:exited|died|terminated) unexpectedly)\W*$"
)
_POINTS_ABOVE = simple(r".*\bSee (?:the )?(?:root cause above|stack trace for the root cause)")
# That others failed, of which the output may have more.
_OTHERS_FAILED = compiled(
    r"(?:\b[0-9]+|one or more|some) (?:failed (?:jobs?|tasks?|steps?|workers?|process(?:es)?|runs?)"
    r"|(?:jobs?|tasks?|steps?|workers?|process(?:es)?|runs?) (?:have |has )?failed)\b"
)
_CAUSED = (b"The above exception was the direct cause", b"During handling of the above")
_IGNORED = (b"Exception ignored in", b"Error in atexit", b"--- Logging error ---")
_ROOT_CAUSE = b"Root Cause (first observed failure)"
_ENDS = (b"During handling", b"The above exception", b"make", b'"""')
_REMOTE = b"RemoteTraceback"
_LAST_ERROR = b"Last error:"
_GRAPH = b"Graph execution error:"
_LONGEST_GRAPH = 80
# Of pydantic, Numba, gRPC and the client of Kubernetes: the first line is the same for all.
_DETAILS_FOLLOW = simple(
    r".*(?: validation errors? for \S++|nopython frontend\)|RPC that terminated with:"
    r"|ApiException: \([0-9]++\))$"
)
_INPUT = simple(r", input_(?:value|type)=.*|^HTTP response .*")
ERROR_OUTPUT = frozenset(
    (b"stderr:", b"Stderr:", b"STDERR:", b"stderr output:", b"Standard error:", b"standard error:")
)
# Titles, and lines of a log that tell no error.
_TELLS_NOTHING = simple(r"[\w ]++:$|(?:\W|[0-9])*+(?:INFO|DEBUG|NOTE|WARN(?:ING)?)\b")
_NAMES_SIGNAL = compiled(r"\{SIG[A-Z]{3,6}\b|^\w[\w ,]* SIG[A-Z]{3,6}\b")
_LABEL_IN_BOX = simple(
    r"\W{1,20}+((?:Error|Reason|Cause|Message|error|reason|cause|message) ?+: .*)$"
)
_LONGEST_BOX = 24
# How a program greets that an exception quotes.
_BANNER = compiled(r"\S+ version \S+ .*(?:Copyright|\(c\)).*$")
_OF_ANOTHER = simple(
    r"(?:[\w./-]++(?:\[[0-9]++\])?+: )?+(?:ERROR|FATAL|[Ee]rror\b|[Ff]atal\b)|npm |make"
)
_FACT = simple(r"[a-z][a-z_]*+: \S")
_DETAILS = 2
_LINES_BEFORE = 3
"""Lines before a traceback that are read with it: one of them may say that it was ignored."""
_MORE = 2
_NUMBERS = simple(r"[0-9]++")
_LONGEST_PLACE = 80
_LONGEST_BLOCK = 120
_NEAR_END = 40
"""Lines above an exception that tells only an end in which the reason may stand."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A text that tells a failure, the place in the code where known, and its last line."""

    text: bytes
    place: bytes = b""
    line: int = -1


@dataclass(frozen=True, slots=True)
class Exceptions:
    """The exception that tells the failure, the last one of a wrapper, and the wrappers' lines."""

    told: Failure | None = None
    wrapper: Failure | None = None
    passed_over: frozenset[int] = frozenset()
    ended: bool = False
    """True: the wrapper tells only that what it ran has ended."""


@dataclass(frozen=True, slots=True)
class _Exception:
    failure: Failure
    start: int
    wrapper: bool
    ended: bool


def exceptions_of(output: Output) -> Exceptions:
    """Find the last exception that is no wrapper. One in a root cause's block counts last."""
    headed = _HEADER in output.text
    if not headed and Sign.FRAME not in output.signs:
        return Exceptions()
    lines = output.lines
    starts = output.with_text(_HEADER) if headed else []
    if not starts or starts[0] > 0:
        # The head of the first one may be cut off, and a SyntaxError has none.
        starts.insert(0, -1)
    ends = [*starts[1:], len(lines)]
    root_cause = len(lines)
    if _ROOT_CAUSE in output.text:
        root_cause = output.with_text(_ROOT_CAUSE)[0]
    passed_over: set[int] = set()
    in_block = wrapper = None
    ended = False
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        found = _read(lines, start, end)
        if found is None:
            continue
        if told := _cause_of_end(lines, starts, start, found):
            return Exceptions(told, wrapper, frozenset(passed_over))
        if found.wrapper:
            ended = ended or (found.ended and wrapper is None)
            wrapper = wrapper or found.failure
            passed_over.update(_passed_over(lines, found))
        elif start > root_cause:
            in_block = in_block or found.failure
        elif not _is_ignored(lines, start):
            told = _with_cause(lines, starts, start, found.failure)
            return Exceptions(told, wrapper, frozenset(passed_over))
    return Exceptions(in_block, wrapper, frozenset(passed_over), ended)


def _passed_over(lines: Sequence[bytes], found: _Exception) -> Sequence[int]:
    """Return the lines that are of a wrapper.

    If it tells an end, what follows only tells it once more, and what is far above was survived.
    """
    start = max(found.start, 0)
    if not found.ended:
        return range(start, _block_end(lines, found.failure.line))
    return [*range(start - _NEAR_END), *range(start, len(lines))]


def _with_cause(
    lines: Sequence[bytes], starts: Sequence[int], start: int, told: Failure
) -> Failure:
    """Return an exception, and if it tells no reason, that which caused it.

    One that is raised once more, as that of another process, is told where it was raised first.
    """
    cause = _cause_of(lines, starts, start)
    if cause is not None and cause.failure.text == told.text:
        return cause.failure
    if cause is None or not is_vague(told.text):
        return told
    text = told.text.rstrip(b".:") + b": " + cause.failure.text
    return Failure(text, told.place, told.line)


def _cause_of_end(
    lines: Sequence[bytes], starts: Sequence[int], start: int, found: _Exception
) -> Failure | None:
    """Return why something ended, if the exception before it tells that.

    The place stays: a signal's exception is raised wherever the program happens to be.
    """
    cause = _cause_of(lines, starts, start) if found.ended else None
    if cause is None or cause.wrapper:
        return None
    return Failure(cause.failure.text, found.failure.place, found.failure.line)


def _cause_of(lines: Sequence[bytes], starts: Sequence[int], start: int) -> _Exception | None:
    """Return the exception that caused that of the traceback which starts there."""
    before = starts.index(start) - 1
    if before < 0 or not _was_caused(lines, start):
        return None
    return _read(lines, starts[before], start)


def last_told(tail: bytes) -> Failure | None:
    """Return the exception of the last traceback, if nothing before it can change that.

    Only the end of the output is read then, which is most often a small part.
    """
    at = tail.rfind(_HEADER)
    if at < 0 or tail.find(_ROOT_CAUSE, 0, at) >= 0:
        return None
    start = at
    for _ in range(_LINES_BEFORE):
        start = tail.rfind(b"\n", 0, max(start, 0))
    output = Output(tail[start + 1 :])
    starts = output.with_text(_HEADER)
    if not starts or starts[-1] == 0 or _is_ignored(output.lines, starts[-1]):
        return None
    found = _read(output.lines, starts[-1], len(output.lines))
    if found is None or found.wrapper:
        return None
    told = found.failure
    if _was_caused(output.lines, starts[-1]):
        # What caused it may be part of it.
        below = output.lines[told.line + 1 : told.line + 2]
        return None if any(below) or is_vague(told.text) or _REMOTE in tail else told
    return told


def _block_end(lines: Sequence[bytes], at: int) -> int:
    """Return the line after a wrapper's exception, and after the block that torchrun adds to it."""
    if b"ChildFailedError" not in lines[at]:
        return at + 1
    rules = 0
    for end in range(at + 1, min(at + _LONGEST_BLOCK, len(lines))):
        rules += lines[end].startswith(b"==========")
        if rules == 2:
            return end + 1
    return at + 1


def _is_ignored(lines: Sequence[bytes], start: int) -> bool:
    return start > 0 and lines[start - 1].startswith(_IGNORED)


def _read(lines: Sequence[bytes], start: int, end: int) -> _Exception | None:
    """Return the exception at the end of the traceback whose head is the line `start`."""
    head = lines[start] if start >= 0 else b""
    headed = start >= 0
    before = head[: head.find(_HEADER)] if headed else b""
    if b"\xe2\x95\xad" in before:
        return _read_rich(lines, start, end)
    name = name_before(before)
    if name and (told := _read_notebook(lines, start, end, name)):
        return told
    prefix = Prefix(before.removesuffix(b"Original ").removesuffix(b"Exception Group "))
    if start + 1 >= end or not prefix.is_before(lines[start + 1]):
        prefix = Prefix(b"")
    frames: list[bytes] = []
    indent = -1
    found = None
    for at in range(start + 1, end):
        line = lines[at]
        length = prefix.length_in(line)
        if length < 0:
            continue
        line = line[length:]
        body = line.lstrip()
        if body.startswith(_FRAME_START):
            if headed and not frames:
                indent = len(line) - len(body)
            frames.append(body)
        elif frames and body and _is_exception(line, len(line) - len(body), indent):
            found = _exception(lines, start, at, prefix, _place(frames))
            if not found.failure.text.startswith(b"ray.exceptions.RayTaskError"):
                break
            frames = []
    return found


def _is_exception(line: bytes, spaces: int, indent: int) -> bool:
    if indent <= 0:
        # Something stripped the indentation, or cut off the head.
        return _NAMED_ONE.search(line.lstrip()) is not None
    return spaces < indent and _EXCEPTION.match(line.lstrip()) is not None


def _exception(
    lines: Sequence[bytes], start: int, at: int, prefix: Prefix, place: bytes
) -> _Exception:
    text = prefix.removed(lines[at]).strip()
    kind = text.partition(b":")[0]
    following = [prefix.removed(line).strip() for line in lines[at + 1 : at + 12]]
    if b"NCCL" in text and _LAST_ERROR in following[:-1]:
        # What failed stands last, after a line of the same length for all.
        text = kind + b": NCCL: " + following[following.index(_LAST_ERROR) + 1]
    elif text.endswith(_GRAPH):
        text = kind + b": " + _after_node(lines[at + 1 : at + _LONGEST_GRAPH])
    elif (detailed := with_details(text, following)) != text:
        text = detailed
    elif text.endswith((b":", b": None")):
        told = _first_told(following) or _labelled(lines[at + 1 : at + _LONGEST_BOX])
        text = b" ".join([text, *told])
    else:
        text = b" ".join([text, *_gone_on(lines, start, text, following)])
    if quoted := _quoted_error(following):
        text = b" ".join([text, *quoted])
    launched = _WRAPPERS.search(kind) is not None
    ended = not launched and _ENDED_ONLY.search(text) is not None
    wrapper = (
        launched
        or ended
        or _POINTS_ABOVE.match(text) is not None
        or (b" failed" in text and _OTHERS_FAILED.search(text) is not None)
    )
    return _Exception(Failure(text, place, at), start, wrapper, ended)


def _gone_on(
    lines: Sequence[bytes], start: int, text: bytes, following: Sequence[bytes]
) -> Sequence[bytes]:
    """Return a later line of a message: of a signal, of its cause, or where the first is vague."""
    near = next(filter(None, following[:_MORE]), b"")
    if near and _NAMES_SIGNAL.search(near):
        return [near]
    if not near or near != following[0]:
        return []
    facts = [*takewhile(_FACT.match, following)]
    if len(facts) >= _DETAILS:
        # As of an actor of Ray: why it died stands below its name, its process and its host.
        return following[len(facts) : len(facts) + 1]
    ends = b": " + near
    if _was_caused(lines, start) and any(line.endswith(ends) for line in lines[:start]):
        return [near]
    vague = is_vague(_BANNER.sub(b"", text).rstrip(b": "))
    return _last_error([*takewhile(bool, following)]) if vague else []


def _last_error(following: Sequence[bytes]) -> Sequence[bytes]:
    """Return the last line of a message that looks like an error, and is not of another program."""
    told = [
        line for line in following if rank_of(line) >= Rank.WEAKER and not _OF_ANOTHER.match(line)
    ]
    return told[-1:]


def _was_caused(lines: Sequence[bytes], start: int) -> bool:
    """Return whether a traceback is that of an exception which another one caused."""
    above = lines[max(start - _LINES_BEFORE, 0) : start]
    return any(said in line for line in above if line for said in _CAUSED)


def _quoted_error(following: Sequence[bytes]) -> list[bytes]:
    """Return the first line of the error output that an exception quotes, if it tells something."""
    if ERROR_OUTPUT.isdisjoint(following):
        return []
    head = next(n for n, line in enumerate(following) if line in ERROR_OUTPUT)
    first = next(filter(None, following[head + 1 :]), b"")
    return [] if not first or _TELLS_NOTHING.match(first) else [first]


def with_details(text: bytes, following: Sequence[bytes]) -> bytes:
    """Return the first line of an error with those that say more, where all have that line."""
    if _DETAILS_FOLLOW.match(text) is None:
        return text
    details = [_INPUT.sub(_closed, line.strip()) for line in following[:_DETAILS]]
    return b" ".join(filter(None, [text, *details]))


def _closed(match: re.Match[bytes]) -> bytes:
    return b"]" if match.group().startswith(b",") else b""


def _after_node(lines: Sequence[bytes]) -> bytes:
    """Return what TensorFlow says of the node of its graph that failed."""
    for line, following in pairwise(lines):
        if line.strip().startswith(b"Node: "):
            return following.strip()
        if following.strip().startswith(b"[[{{node "):
            return line.strip()
    return _GRAPH


def _first_told(following: Sequence[bytes]) -> Sequence[bytes]:
    """Return the first line that says more, if it comes soon and is not of something else."""
    for line in following[:_MORE]:
        if line and line.strip(b"=-*# ") and _HEADER not in line and not line.startswith(_ENDS):
            return [line]
    return []


def _labelled(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return what a box below an exception gives as its error and its reason."""
    found = (match for line in lines if (match := _LABEL_IN_BOX.match(line)))
    return [match.group(1) for match in found][:_DETAILS]


def _read_rich(lines: Sequence[bytes], start: int, end: int) -> _Exception | None:
    """Read the boxes that `rich` draws around tracebacks; the exception stands below."""
    frames: list[bytes] = []
    below = False
    for at in range(start + 1, end):
        line = lines[at]
        if match := _RICH_FRAME.search(line):
            frames.append(b'File "%b", line 1, in %b' % match.groups())
        elif line.startswith(b"\xe2\x95\xb0"):
            below = True
        elif below and _EXCEPTION.match(line):
            return _exception(lines, start, at, Prefix(b""), _place(frames))
    return None


def _read_notebook(lines: Sequence[bytes], start: int, end: int, name: bytes) -> _Exception | None:
    """Read what IPython prints: its head tells the name that the last line starts with."""
    frames: list[bytes] = []
    for at in range(start + 1, end):
        line = lines[at]
        if line == name or line.startswith(name + b": "):
            return _exception(lines, start, at, Prefix(b""), _place(frames))
        if frame := frame_of_notebook(line):
            frames.append(frame)
    return None


def _place(frames: Sequence[bytes]) -> bytes:
    """Return the innermost own frame as `module:function`.

    Own are frames outside of installed packages, and if there are others, those outside of Python
    itself: `KeyError` is raised in `os` for any variable that is missing.
    """
    own = [frame for frame in frames if b"-packages" not in frame and frame[6:7] != b"<"]
    best = (frame for frame in reversed(own) if _STANDARD.search(frame) is None)
    chosen = next(best, None) or next(reversed(own or frames), b"")
    match = _FRAME.search(chosen)
    if match is None:
        return b""
    function = (match.group(2) or b"").strip()
    return module_of(match.group(1)) + (b":" + function if function else b"")


def module_of(path: bytes) -> bytes:
    """Return the name of a file without folders and extension; a package's is its folder's."""
    parts = path.replace(b"\\", b"/").rsplit(b"/", 2)
    name = parts[-1].rpartition(b".")[0] or parts[-1]
    if name in {b"__init__", b"__main__"} and len(parts) > 1 and parts[-2]:
        return parts[-2]
    return name


def place_masked(place: bytes) -> str:
    """Return a place without its numbers, of at most 80 characters."""
    return _NUMBERS.sub(b"#", place).decode("utf-8", "replace")[:_LONGEST_PLACE]
