"""The time for which a started watch tolerates an outage of the server."""

import time

from reprise_client.errors import ApiError, RepriseError, ServerUnreachable

OUTAGE_SECONDS = 120.0
PAUSE_SECONDS = 0.5


class OutageTolerance:
    """Tells an outage during a watch from a server that never answered.

    Call `answered` on every success and `endure` with every error. `endure` pauses, so that the
    caller can try again, or raises the error: before the first answer, for an error that will not
    pass by itself, or if the outage lasts over `seconds`.
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
