"""Dumps: the stacks, threads and registers that runtimes print below what failed. Pure.

They may be far longer than what a report holds, and what failed stands at their head.
"""

import re
from typing import NamedTuple

LONGEST = 1024
"""Bytes of the longest line that is looked at; no frame is longer."""

_OTHERS = 8
"""Lines that are no frames, one after the other, above a dump: fewer are of other threads."""

# No alternative reads a part of a line more than twice: outputs may be made to be slow.
_FRAME = re.compile(
    rb"""
    \s++ at\ (?: async\ | new\ )?+ [^\s(]++ (?: \ ?\( | \ \[as\  | $ )   # Java, Node, .NET, Rust
  | \s*+ \.\.\. (?: [0-9]++ (?: \ more | \ common\ frames) | additional\ frames\ elided )
  | \s++ /\S+ \.go:[0-9]++ (?: \ \+0x[0-9a-f]++ )?+ $                    # Go, and its registers
  | goroutine\ [0-9]++ \s [^\[]*+ \[ | created\ by\ \S | [a-z][a-z0-9]{1,5}+ \s++ 0x[0-9a-f]++ $
  | "[^"]*+" \s .*? \b (?: prio | tid | os_prio) =                      # threads of the JVM
  | \s++ java\.lang\.Thread\.State: | \s++ -\ (?: locked | waiting | parking | eliminated | None )
  | \s++ Locked\ ownable | \s++ No\ compile\ task
  | \s++ File\ "[^"]*+",\ line\ [0-9] | (?: Current\ thread | Thread )\ 0x   # a dying Python
  | \s*+ (?: frame\ )?+ \#[0-9]++ (?: \s | :\ 0x ) | \s++ [0-9]++:\ ++ (?: 0x | [^\s:]*+ :: )
  | \s*+ \[\s*+[0-9]++\]\ (?: / | [^\s(]++\( ) | \s*+ @\ ++ (?: 0x | \( )           # native
  | [=>\s]*+ 0x[0-9a-f]++ :\ [0-9a-f]{2}\b | [0-9a-f]{8,16}+-[0-9a-f]{8,16}+\ [r-][w-]
  | \s++ (?: [0-9]++:\ )?+ from\ \S+:[0-9] | \s++ \S .*? \ called\ at\ \S   # Ruby, Perl
  | c:[0-9]{4}\ p: | \s++ (?: \([\w\ .]++\)\ )?+ \S+\.exs?:[0-9]           # Ruby, Elixir
  | \s*+ $
    """,
    re.VERBOSE,
)
# `net/http.(*conn).serve(0xc0001, {0x1, 0x2})`, before and behind its last bracket.
_GO_NAME = re.compile(rb"[\w./*()\[\]{}$@~%-]++")
_GO_VALUES = re.compile(rb"[0-9a-fx,?.{}\s]*+\)(?: in goroutine [0-9]++)?+$")


def is_frame(line: bytes) -> bool:
    """Return whether a line is part of a dump, and says nothing of what failed. Blank lines are."""
    return len(line) <= LONGEST and (_FRAME.match(line) is not None or _is_call_in_go(line))


def _is_call_in_go(line: bytes) -> bool:
    name, bracket, values = line.rpartition(b"(")
    if not bracket or b"." not in name or not _GO_VALUES.match(values):
        return False
    return _GO_NAME.fullmatch(name) is not None


class Start(NamedTuple):
    """Where a dump begins in a part of an output; `sure`: it has not begun before that part."""

    at: int
    sure: bool


def start_of(before: bytes, after: bytes) -> Start | None:
    """Return where in `before` the dump begins that goes on in `after`; None if none does.

    The two are parts of one output, next to each other.
    """
    top = before.rfind(b"\n") + 1
    if not is_frame(before[top:] + after.partition(b"\n")[0]):
        return None
    others, end = 0, top
    while end > 0 and others < _OTHERS:
        start = before.rfind(b"\n", 0, end - 1) + 1
        line = before[start : end - 1]
        if not is_frame(line):
            others += 1
        elif line.strip():
            top, others = start, 0
        end = start
    return Start(top, sure=others == _OTHERS)
