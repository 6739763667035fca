"""What a program that Reprise runs can ask about its attempt, and tell of its progress.

`from reprise_client import attempt` gives the one object. Nothing here calls a server, and nothing
raises: a program must not fail because it tells how far it is.
"""

import atexit
import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from threading import RLock
from typing import Any, SupportsFloat

log = logging.getLogger("reprise_client")

PREFIX = "::reprise:: "
SECONDS = 1.0
"""Least seconds between two lines. A line with a new checkpoint does not wait."""
CHECKPOINT_BYTES = 2048
NOTE_LENGTH = 200
_EXACT = 2**53


class ThisAttempt:
    """The attempt that this process is part of. `environ` is where it looks, by default the real
    environment."""

    def __init__(self, environ: Mapping[str, str] = os.environ):
        self._environ = environ
        # A handler of a signal may tell a checkpoint while the program tells its progress.
        self._lock = RLock()
        self._printed_at = -math.inf
        self._checkpoint = ""
        self._waiting = ""
        self._waiting_saved = False
        self._warned = False
        self._registered = False

    @property
    def inside(self) -> bool:
        """Return whether Reprise runs this process."""
        return bool(self._environ.get("REPRISE_SESSION_ID"))

    @property
    def number(self) -> int:
        """Return the number of the attempt; the first one has 0. Outside Reprise it is 0."""
        text = self._environ.get("REPRISE_ATTEMPT", "")
        return int(text) if text.isdecimal() else 0

    @property
    def previous_cause(self) -> str:
        """Return the cause for which the previous attempt ended; "" in the first one."""
        return self._environ.get("REPRISE_PREVIOUS_CAUSE", "")

    @property
    def checkpoint(self) -> str:
        """Return the newest checkpoint of the attempts before; "" if there is none."""
        return self._environ.get("REPRISE_CHECKPOINT", "")

    @property
    def step(self) -> float:
        """Return the step of that checkpoint; 0 if there is none."""
        text = self._environ.get("REPRISE_STEP", "")
        try:
            return int(text) if text.isdecimal() else float(text or 0)
        except ValueError:
            return 0

    def progress(
        self,
        step: SupportsFloat,
        of: SupportsFloat | None = None,
        checkpoint: str | None = None,
        note: str | None = None,
    ) -> None:
        """Tell that `step` steps are done, of `of` if that is known.

        `checkpoint` is where this work was saved, up to 2 KiB; `note` is for people, up to 200
        characters. Call it as often as you like: it prints at most one line a second, the last one
        when the program ends, and each new checkpoint at once. One whose name stays the same waits
        its second, but is printed before a line without a checkpoint.
        """
        if not self.inside:
            return
        try:
            self._tell(progress_line(step, of, checkpoint, note), checkpoint or "")
        except Exception as error:  # noqa: BLE001  # the program must go on, whatever is wrong
            self._warn(error)

    def flush(self) -> None:
        """Print the line that waits, if there is one."""
        try:
            with self._lock:
                if self._waiting:
                    self._print(self._waiting)
        except Exception as error:  # noqa: BLE001  # as above
            self._warn(error)

    def _tell(self, line: str, checkpoint: str) -> None:
        with self._lock:
            if not self._registered:
                self._registered = True
                atexit.register(self.flush)
            if self._waiting and self._waiting_saved and not checkpoint:
                # The next attempt goes on at the step of the last line with a checkpoint: that must
                # be this one, also if its name is that of an older one.
                self._print(self._waiting)
            saved = checkpoint not in ("", self._checkpoint)
            self._waiting, self._waiting_saved = line, bool(checkpoint)
            if saved or time.monotonic() >= self._printed_at + SECONDS:
                self._print(line)
                self._checkpoint = checkpoint or self._checkpoint

    def _print(self, line: str) -> None:
        self._printed_at = time.monotonic()
        # A bar of tqdm has no end of its line.
        start = "\r" if "tqdm" in sys.modules else ""
        sys.stdout.write(f"{start}{line}\n")
        sys.stdout.flush()
        # Another line waits if a handler of a signal could not print it meanwhile.
        if self._waiting == line:
            self._waiting = ""

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the progress is not told: %s", error)


def progress_line(
    step: SupportsFloat,
    of: SupportsFloat | None = None,
    checkpoint: str | None = None,
    note: str | None = None,
) -> str:
    """Return the line that tells the progress, without its end. Raises `ValueError`."""
    told: dict[str, Any] = {"step": _number("step", step)}
    if of is not None:
        told["of"] = _number("of", of)
    if checkpoint:
        if len(_plain("checkpoint", checkpoint).encode()) > CHECKPOINT_BYTES:
            raise ValueError(f"checkpoint: must have at most {CHECKPOINT_BYTES} bytes")
        told["checkpoint"] = checkpoint
    if note:
        if len(_plain("note", note)) > NOTE_LENGTH:
            raise ValueError(f"note: must have at most {NOTE_LENGTH} characters")
        told["note"] = note
    return PREFIX + json.dumps(told)


def _number(name: str, value: SupportsFloat) -> float:
    """Return a number of any kind, such as NumPy's, as one of Python's; whole ones as `int`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name}: must be a finite number of at least 0, not {value!r}")
    return int(number) if number < _EXACT and number.is_integer() else number


def _plain(name: str, text: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{name}: must be text, not {text!r}")  # one kind of error
    for char in text:
        if char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff":
            raise ValueError(f"{name}: must not contain control characters")
    return text


attempt = ThisAttempt()
