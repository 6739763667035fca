"""Request bodies on their way to the WSGI application: read to the end before a thread is taken."""

from collections.abc import Awaitable, Callable
from tempfile import SpooledTemporaryFile
from typing import Any, Self

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]

IN_MEMORY = 1024 * 1024
"""Bytes; what is more is kept in a temporary file."""
PIECE = 256 * 1024


class SpooledBody:
    """A whole body that can be received once more, piece by piece. Close it to free its room."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # closed by `close`
        self.size = 0
        self._left: int | None = None

    @classmethod
    async def read(cls, receive: Receive, limit: int) -> Self | None:
        """The body that `receive` brings; one byte more than `limit` at most.

        None if its sender went away before the end: half a body is nothing to act on.
        """
        body, more = cls(), True
        while more and body.size <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                body.close()
                return None
            body._append(message.get("body", b"")[: limit + 1 - body.size])
            more = message.get("more_body", False)
        body._file.seek(0)
        body._left = body.size
        return body

    def _append(self, piece: bytes) -> None:
        self._file.write(piece)
        self.size += len(piece)

    async def receive(self) -> Message:
        """The next piece as ASGI tells it; behind the last one, that the sender is gone."""
        if self._left is None:
            return {"type": "http.disconnect"}
        piece = self._file.read(PIECE)
        self._left -= len(piece)
        more = self._left > 0
        self._left = self._left if more else None
        return {"type": "http.request", "body": piece, "more_body": more}

    def bytes(self) -> bytes:
        """All of it at once."""
        self._left = None
        return self._file.read()

    def close(self) -> None:
        """Free the memory or the file."""
        self._file.close()
