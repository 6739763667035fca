"""Commands in shell syntax."""

import re
import shlex
from collections.abc import Sequence

from reprise_client.cli.unseen import CONTROLS, INVISIBLE

_UNSEEN = re.compile(rf"[\r{CONTROLS}{INVISIBLE}]")


def typed(command: Sequence[str]) -> str:
    """Return a command as typed into bash, with line breaks kept and invisible characters
    escaped."""
    return " ".join(_typed(word) for word in command)


def _typed(word: str) -> str:
    if not _UNSEEN.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{_UNSEEN.sub(_escaped, escaped)}'"


def _escaped(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"
