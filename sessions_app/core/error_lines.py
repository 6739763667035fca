"""Which line of a log looks like the error. Pure; works on bytes, on a linear-time engine (RE2)."""

from typing import Any

import re2

LEAST_SAID = 8
"""Fewest characters of a message that is looked for in the log; fewer would be found anywhere."""
MOST_SAID = 300

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# A log may hold any bytes.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_LOOKS_LIKE_ONE = (
    r"Traceback \(most recent call last\)"
    r"|\b[A-Za-z_.]*(?:Error|Exception)\b ?:"
    r"|\b(?:ERROR|FATAL|CRITICAL|PANIC)\b"
    r"|(?i:^\W*(?:\S+: )?(?:fatal|panic|error)\b ?[:\[(])"
    r"|(?i:\b(?:segmentation fault|core dumped|out of memory|oom-?killed|cannot allocate memory)\b)"
    r"|\b(?:[Pp]ermission denied|[Nn]o such file or directory|[Cc]ommand not found)\b"
)


def error_pattern(message: str = "") -> Any:
    """Return the pattern of a line that looks like an error, or that has the first line of
    `message`, which the workload or the cluster gave for the end."""
    said = message.strip().splitlines()[:1]
    wanted = said[0].strip()[:MOST_SAID] if said else ""
    text = f"(?m:{_LOOKS_LIKE_ONE})"
    if len(wanted) >= LEAST_SAID:
        text = f"{_literal(wanted)}|{text}"
    return re2.compile(text.encode(), _OPTIONS)


def _literal(text: str) -> str:
    """Return a pattern of exactly these bytes."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode("utf-8", "replace"))
