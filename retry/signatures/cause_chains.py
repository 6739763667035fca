"""Errors with the chain of their causes, as programs in Rust print them below `Caused by:`."""

from collections.abc import Sequence

from retry.signatures.engine import simple

_BELOW = b"Caused by:"
_BESIDE = b"  Caused by: "
_PARTS = (_BELOW, b"Stack backtrace:", b"Location:")
_BARE_HEAD = b"Error:"
_HEAD = simple(r"(?i)[^\n]*?\berror\b")
_NUMBERED = simple(r"\s++[0-9]++: (.*)$")
_WORDS = simple(r"[A-Za-z]\S*+ ")
_LONGEST = 80
"""Lines between the head and the line that was found, at most."""
_LAST_CAUSES = 2


def chain_of(lines: Sequence[bytes], at: int) -> bytes | None:
    """Return the head of the chain that a line is part of, and its last two causes; else None.

    The first cause alone does not tell one failure from another: `No such file or directory`.
    """
    head = at
    while head >= 0 and at - head < _LONGEST and _is_inside(lines[head]):
        head -= 1
    if head < 0 or _HEAD.match(lines[head]) is None:
        return None
    bare = lines[head] == _BARE_HEAD
    causes = _causes(lines, head + 1, bare=bare)
    if not causes:
        return None
    told = causes[:1] if bare else [lines[head].strip()]
    return b": ".join([*told, *causes[len(told) if bare else 0 :][-_LAST_CAUSES:]])


def _is_inside(line: bytes) -> bool:
    return not line or line[:1] in b" \t" or line in _PARTS


def _causes(lines: Sequence[bytes], start: int, *, bare: bool) -> list[bytes]:
    """Return the causes, the outermost first. Below a bare head, they follow without a title."""
    found: list[bytes] = []
    wanted = numbered = bare
    column = _LONGEST
    for line in lines[start : start + _LONGEST]:
        if line.startswith(_BESIDE):
            found.append(line.removeprefix(_BESIDE))
        elif line == _BELOW:
            wanted, numbered = True, False
        elif line in _PARTS or not _is_inside(line):
            break
        elif wanted and (match := _NUMBERED.match(line)):
            found.append(match.group(1))
            numbered = True
            column = match.start(1)
        elif numbered and _goes_on(line, column):
            found[-1] = found[-1].rstrip(b":") + b": " + line.strip()
        elif wanted and not numbered and line:
            found.append(line.strip())
            wanted = False
    return found


def _goes_on(line: bytes, column: int) -> bool:
    """Return whether a line goes on with a cause, aligned with it, and is no excerpt of a file."""
    return line[:column].isspace() and _WORDS.match(line, column) is not None
