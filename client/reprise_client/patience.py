"""How long a watch that has begun sits out an outage of the server."""

import time

from reprise_client.errors import ApiError, RepriseError, ServerUnreachable

OUTAGE_SECONDS = 120.0
PAUSE_SECONDS = 0.5


class Patience:
    """Tells an outage in the middle of a watch from a server that was never there.

    Call `answered` on every success and `endure` with every error; `endure` either pauses, so
    that the caller may try again, or raises the error: when nothing has been answered yet, when
    the error will not pass by itself, or when the outage lasts over `seconds`.
    """

    def __init__(self, seconds: float = OUTAGE_SECONDS, pause: float = PAUSE_SECONDS):
        self._seconds = seconds
        self._pause = pause
        self._begun = False
        self._failing_since: float | None = None

    def answered(self) -> None:
        self._begun = True
        self._failing_since = None

    def endure(self, error: RepriseError) -> None:
        passing = isinstance(error, ServerUnreachable) or (
            isinstance(error, ApiError) and (error.status >= 500 or error.status == 429)
        )
        if not self._begun or not passing:
            raise error
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._seconds:
            raise error
        time.sleep(self._pause)
