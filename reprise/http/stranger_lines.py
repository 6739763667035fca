"""Log lines that anybody can cause by a call, such as one for a host that is not ours.

Each would be an error with a traceback, so that a stranger could fill the log.
"""

import logging
import threading
import time

EVERY = 10.0
"""Seconds between two lines of one logger; the next one counts those that were left out."""
LONGEST = 200
"""Characters of a line: the rest is the caller's, and may be long."""


class StrangerLines(logging.Filter):
    """Lets through one short line of a kind every `EVERY` seconds, without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the line; lines of other kinds are not changed."""
        if not _of_strangers(record):
            return True
        with self._lock:
            now = time.monotonic()
            if now < self._due.get(record.name, now):
                self._left_out[record.name] = self._left_out.get(record.name, 0) + 1
                return False
            self._due[record.name] = now + EVERY
            left_out = self._left_out.pop(record.name, 0)
        more = f" ({left_out} more lines like this were left out)" if left_out else ""
        record.msg, record.args = f"{record.getMessage()[:LONGEST]}{more}", ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _of_strangers(record: logging.LogRecord) -> bool:
    """Return whether the line is a refusal by Django, or by uvicorn, whose errors are bugs."""
    if record.name == "uvicorn.error":
        return record.levelno == logging.WARNING
    return record.name.startswith("django.security.")
