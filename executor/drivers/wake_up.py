"""A wake-up call for a waiting thread, from any thread or signal handler."""

import os
import select
from contextlib import suppress
from math import ceil


class Bell:
    """Wakes a waiting thread; several rings wake it once.

    It has no lock, because a signal handler may interrupt the very thread that waits.
    """

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._event

    def ring(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_write(self._event, 1)

    def silence(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def wait(self, timeout: float | None) -> None:
        """Wait until it rings, for at most `timeout` seconds, and silence it."""
        # `select` cannot handle descriptors above 1,023.
        waiting = select.poll()
        waiting.register(self._event, select.POLLIN)
        if waiting.poll(None if timeout is None else ceil(timeout * 1000)):
            self.silence()
