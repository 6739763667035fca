"""Characters that nobody sees in a terminal, or that change what is seen there.

Names, messages and logs come from other users and their programs.
"""

from __future__ import annotations

import json
import re

import typer

CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_RARE = re.compile(f"[{CONTROLS}{INVISIBLE}]")
_INVISIBLE = re.compile(rf"[\x80-\x9f{INVISIBLE}]")
# Joiners belong to the writing of many languages and to emoji; beside ASCII they only hide.
_JOINER = re.compile(r"[^\x00-\x7f][\u200c\u200d][^\x00-\x7f]")


def marked(text: str) -> str:
    """Return the text with the code of each such character in its place: `<U+202E>`.

    Line ends and tabs stay, and so do joiners between characters that are not ASCII.
    """
    return _coded(_RARE, text)


def marked_log(text: str) -> str:
    """Return a log for a terminal: colours and movements of the cursor stay, too."""
    return _coded(_INVISIBLE, text)


def json_escaped(text: str) -> str:
    """Return JSON with escapes in place of such characters. It means the same."""
    return _RARE.sub(_json_escape, text)


def has_unseen(text: str) -> bool:
    """Return whether a text has any of these characters."""
    return _RARE.search(text) is not None


def say(text: str, *, err: bool = False) -> None:
    """Print a line of which everything is seen."""
    typer.echo(marked(text), err=err)


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    # Those beyond U+FFFF take two escapes.
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(found[0])[1:-1]


def _coded(pattern: re.Pattern[str], text: str) -> str:
    def code(found: re.Match[str]) -> str:
        joins = _JOINER.match(text, found.start() - 1) if found.start() else None
        return found[0] if joins else f"<U+{ord(found[0]):04X}>"

    return pattern.sub(code, text)
