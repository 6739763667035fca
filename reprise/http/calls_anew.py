"""Calls that begin anew because a table has changed meanwhile (`reprise/postgresql/plans.py`)."""

from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponseBase

from reprise.http.request_log import WIRE_DOOR, place_of


class CallsAnew:
    """Middleware that answers a call once more if a transaction failed at an outdated plan.

    The innermost one: what the others do happens once. A call that has committed something keeps
    its answer, and so does one whose body is longer than any bulk call's. Only the calls of
    executors begin anew all the same: an executor repeats each of them whose answer is lost.
    """

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request."""
        database: Any = connection  # of our own backend
        database.committed = False
        call: Any = request
        call._stream = body = _Kept(call._stream)  # noqa: SLF001  # Django has no other way to read twice
        response = self._respond(request)
        if not _plan_failed() or body.text is None:
            return response
        if database.committed and place_of(request)[1] != WIRE_DOOR:
            return response
        response.close()
        call._stream, call._read_started = body.again(), False  # noqa: SLF001
        return self._respond(request)


def _plan_failed() -> bool:
    """Return whether a transaction of this thread failed so, and forget it."""
    found = connection.connection
    failed: bool = getattr(found, "plan_failed", False)
    if failed:
        found.plan_failed = False
    return failed


class _Kept:
    """A request's stream that keeps what was read, up to the limit of bulk calls."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream
        self.text: list[bytes] | None = []
        self._left = settings.BULK_BODY_LIMIT_BYTES

    def read(self, *size: int) -> bytes:
        """Read, as the stream does."""
        return self._keep(self._stream.read(*size))

    def readline(self, *size: int) -> bytes:
        """Read a line, as the stream does."""
        return self._keep(self._stream.readline(*size))

    def close(self) -> None:
        """Leave the stream open: the call may begin anew."""

    def _keep(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            self.text = None
        elif self.text is not None:
            self.text.append(piece)
        return piece

    def again(self) -> IO[bytes]:
        """Return a stream of the same body."""
        return BytesIO(b"".join([*(self.text or ()), self._stream.read()]))
