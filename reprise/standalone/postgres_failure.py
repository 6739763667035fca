"""Errors of the embedded PostgreSQL, as one line for people."""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = "the disk is full: free some space and start again"
READ_ONLY = "the file system is read-only: choose another data directory"
FORBIDDEN = "this user may not use it: change its owner or choose another data directory"

_ADVICE_BY_ERRNO = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: FORBIDDEN,
    errno.EPERM: FORBIDDEN,
    errno.ENOTDIR: "it is not a directory: choose another data directory",
    errno.EEXIST: "it is not a directory: choose another data directory",
}
# Phrases of the operating system that PostgreSQL repeats in its messages.
_ADVICE_BY_PHRASE = {
    "No space left on device": FULL,
    "Disk quota exceeded": FULL,
    "Read-only file system": READ_ONLY,
    "Permission denied": FORBIDDEN,
    "wrong ownership": FORBIDDEN,
    "password authentication failed": "remove the file postgres.pgpass: a start makes another one",
    "Cannot allocate memory": "the machine has too little free memory",
}
# Excludes messages to clients that come during startup or shutdown.
_FATAL_LINE = re.compile(r"(?:FATAL|PANIC|ERROR|error): ++(?!the database system is )(.*)")
# With less free space a server cannot even log why it stopped.
_LITTLE_SPACE_BYTES = 1024 * 1024


class PostgresError(Exception):
    """An error in one clear line: what is wrong, where, and what to do."""


@contextmanager
def named_errors(data_dir: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `PostgresError` that names the path."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE_BY_ERRNO.get(error.errno or 0, error.strerror or str(error))
        place = error.filename or data_dir
        raise PostgresError(f"PostgreSQL cannot use {place}: {advice}") from error


def failure(data_dir: Path, output: str) -> PostgresError:
    """Return the error for a program that failed, from its output."""
    reasons = _FATAL_LINE.findall(output) or output.strip().splitlines()[-1:]
    reason = reasons[-1].strip() if reasons else "it ended without a word"
    phrases = (text for phrase, text in _ADVICE_BY_PHRASE.items() if phrase in output)
    advice = next(phrases, None)
    if advice is None and shutil.disk_usage(data_dir).free < _LITTLE_SPACE_BYTES:
        advice = FULL
    text = f"{advice} ({reason})" if advice else reason
    return PostgresError(f"PostgreSQL cannot run in {data_dir}: {text}")
