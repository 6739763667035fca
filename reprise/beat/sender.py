"""A thread that sends the messages of due tasks, so that beat does not wait for the broker."""

import threading
from collections.abc import Callable
from typing import Any

STOP_SECONDS = 2.0


class Sender:
    """Calls `send` with one entry after the other.

    An entry that still waits is sent once, not twice: beat puts the same task again before a broker
    that hangs has answered.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._waiting: dict[str, Any] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, entry: Any) -> None:
        """Queue an entry; never waits."""
        with self._changed:
            self._waiting[entry.name] = entry
            if self._thread is None:  # a thread does not survive a fork, so it starts here
                self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send the waiting entries, for at most `STOP_SECONDS`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            self._send(entry)

    def _next(self) -> Any:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            return self._waiting.pop(next(iter(self._waiting)))
