"""Patterns of users, on a linear-time engine (RE2): no pattern can hang a decision."""

from functools import lru_cache
from typing import Any

import re2

from retry.evidence.termination import message_tail

MAX_PATTERN = 1024
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


@lru_cache(maxsize=4096)
def pattern(text: str) -> Any:
    """Compile a pattern. Raises `ValueError` with a message for users if RE2 refuses it."""
    if len(text) > MAX_PATTERN:
        raise ValueError(f"must have at most {MAX_PATTERN:,} characters")
    try:
        return re2.compile(text, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0] if isinstance(error, re2.error) and error.args else "not valid text"
        message = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise ValueError(f"is not an RE2 regular expression: {message}") from None


def searchable(message: str) -> bytes:
    """Return the searched part of a message: its last 4,096 bytes, as UTF-8."""
    return message_tail(message).encode("utf-8", "replace")


def found_in(compiled: Any, text: bytes) -> bool:
    """Return whether a compiled pattern occurs anywhere in a `searchable` text."""
    # The engine works on bytes; it would encode a str anew for every pattern.
    return compiled.search(text) is not None


@lru_cache(maxsize=4096)
def title_has(text: str, title: str) -> bool:
    """Return whether a pattern occurs in the title of a failure.

    Failures with the same title come again and again: the answers are kept.
    """
    return found_in(pattern(text), searchable(title))
