"""A wake-up that any thread, and a signal's handler, may give while another thread waits."""

import os
import select
from contextlib import suppress
from math import ceil


class WakeUp:
    """Set twice it wakes once. No lock: a handler may interrupt the very thread that waits."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._event

    def set(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_write(self._event, 1)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def wait(self, timeout: float | None) -> None:
        """Wait until it is set, for `timeout` seconds at most; it is clear afterwards."""
        # Not `select`, which knows no descriptor above 1,023.
        waiting = select.poll()
        waiting.register(self._event, select.POLLIN)
        if waiting.poll(None if timeout is None else ceil(timeout * 1000)):
            self.clear()
