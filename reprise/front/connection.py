"""Connections of a front: the head of a request must come soon, and may not be long.

uvicorn itself waits for a head for ever, and takes one of any length.
"""

import asyncio
from collections import Counter
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from interfaces.http.addresses import client_address
from sessions_app.instruments import HEADS_ENDED

SETTLED = 1.0
"""Seconds for which a head may be unfinished uncounted: a burst of connections is no crowd."""
LONGEST_HEAD = 64 * 1024
_ANSWER = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_late: Counter[str] = Counter()
"""The unfinished heads of each address that are not new any more."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol, with a limit for the time, the length and the number of heads.

    A new connection owes a head. One that is kept after an answer owes the rest of the next head
    once that has begun. Each client has so many late heads; whatever comes above is closed.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._owes_head = False
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._late_address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Parse what has come; close the connection if its head is too long."""
        super().data_received(data)
        if not self._owes_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > LONGEST_HEAD:
            self._end(b"431 Request Header Fields Too Large")
        elif self._timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        super().on_message_begin()
        self._owes_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        self._forget_head()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place of a late head back."""
        self._forget_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._owes_head = True
        self._timer = self.loop.call_later(SETTLED, self._count)

    def _forget_head(self) -> None:
        self._owes_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late_address:
            _late.subtract([self._late_address])
            if not _late[self._late_address]:
                del _late[self._late_address]
            self._late_address = ""

    def _count(self) -> None:
        """Count this head as late, or close the connection if its client has too many."""
        address = client_address(str(self.client[0] if self.client else ""), "")
        if _late[address] >= settings.REPRISE["unfinished_heads_per_address"]:
            self._end(b"408 Request Timeout")
            return
        self._late_address = address
        _late[address] += 1
        left = settings.REPRISE["head_timeout"] - SETTLED
        self._timer = self.loop.call_later(max(0, left), self._end, b"408 Request Timeout")

    def _end(self, status: bytes) -> None:
        HEADS_ENDED.labels(status[:3].decode()).inc()
        self._forget_head()
        # Nothing may get into an answer that is still being sent.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_ANSWER % status)
        self.transport.close()
