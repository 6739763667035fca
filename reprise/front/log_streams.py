"""Answers that continue: the log of a session, and the parts that all such answers share.

The WSGI application makes the head of the answer and thereby checks permission. The body is read in
slices, so that a reader, however slow, holds no thread and no database connection.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError

from base.loglines.context import bind
from reprise.http.request_log import HEADER, METHOD, UNCOUNTED
from sessions_app.instruments import HELD
from sessions_app.services.sessions.logs import log_more

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
InThread = Callable[..., Awaitable[Any]]

LOGS = re.compile(r"(?:/api/v2)?/sessions/([0-9a-f-]{36})/(?:logs|log/download)/")
"""The log over REST, and as a file from its page."""
PAUSE = 0.5
"""Seconds between checks for more output."""


class Reader:
    """The client of a stream; knows when it has disconnected."""

    def __init__(self, receive: Receive, send: Send):
        self._gone = asyncio.ensure_future(_disconnected(receive))
        self._send = send

    async def send(self, body: bytes) -> None:
        """Send a piece."""
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """Close the answer."""
        self.forget()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def pause(self) -> None:
        """Wait for `PAUSE`, or until the reader is gone."""
        await asyncio.wait({self._gone}, timeout=PAUSE)

    @property
    def gone(self) -> bool:
        """Return whether the reader has disconnected."""
        return self._gone.done()

    def when_gone(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as the reader disconnects."""
        self._gone.add_done_callback(lambda _: then())

    def forget(self) -> None:
        """Stop watching for a disconnect."""
        self._gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Permission:
    """A reader's permission; the view is asked again every `stream_check_after` seconds."""

    def __init__(self, wsgi: Any, scope: Message):
        self._wsgi = wsgi
        self._scope = {**scope, UNCOUNTED: True}
        self._now = asyncio.get_running_loop().time
        self._refused = False
        self.check_at = self._next()

    def _next(self) -> float:
        return self._now() + float(settings.REPRISE["stream_check_after"])

    async def holds(self) -> bool:
        """Return whether the reader may read on, as far as is known."""
        if self._refused or self._now() < self.check_at:
            return not self._refused
        self.check_at = self._next()
        answer = _Status()
        await self._wsgi(self._scope, _nothing, answer.send)
        # An answer other than these, such as during an outage, is no refusal. A page sends whoever
        # is signed out to the login.
        self._refused = answer.status in {302, 401, 403, 404}
        return not self._refused


class _Status:
    """An answer of which only the status is kept."""

    status = 0

    async def send(self, message: Message) -> None:
        """Take a message of the application as ASGI's `send`."""
        self.status = message.get("status", self.status)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def wants_log(scope: Message) -> bool:
    """Return whether a request is for a session's log."""
    return LOGS.fullmatch(scope["path"]) is not None


def _follows(scope: Message) -> bool:
    return query_of(scope).get("follow", "false").lower() in {"true", "1", "yes", "on"}


def query_of(scope: Message) -> dict[str, str]:
    """Return the query parameters; the last value counts if one is given twice."""
    found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}


async def send_log(
    scope: Message, receive: Receive, send: Send, wsgi: Any, in_thread: InThread, closing: Any
) -> None:
    """Send the log from the requested offset. If followed, send also what is written until the
    session ends, or until the reader loses permission."""
    opened = Opened(send, as_is)
    head = {**scope, "method": "HEAD", METHOD: scope["method"]}
    await wsgi(head, receive, opened.send)
    if opened.continues:
        bind(request_id=request_id_in(opened.headers.items()))
        permission = Permission(wsgi, {**head, "query_string": b""})
        with HELD.labels("log").track_inprogress():
            await _go_on(scope, Reader(receive, send), opened, permission, in_thread, closing)


async def _go_on(
    scope: Message,
    reader: Reader,
    opened: "Opened",
    permission: Permission,
    in_thread: InThread,
    closing: Any,
) -> None:
    session_id = UUID(LOGS.fullmatch(scope["path"])[1])  # type: ignore[index]
    offset = int(opened.headers.get(b"x-reprise-log-offset", b"0"))
    final = not _follows(scope)
    while not closing() and not reader.gone and await permission.holds():
        try:
            data, ended = await in_thread(log_more, session_id, offset)
        except (OperationalError, InterfaceError) as error:
            # To end the answer here would look like the end of the log.
            logger.info("a log stream waits for the database: %s", error)
            await reader.pause()
            continue
        offset += len(data)
        if data:
            await reader.send(data)
        elif final:
            break
        else:
            # The end counts at the second check: the last piece may just be on its way.
            final = ended
            await reader.pause()
    await reader.end()


def as_is(headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[Any, bytes]:
    """Return an answer unchanged."""
    return headers, body


def request_id_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the request id of a call from the headers of its answer."""
    wanted = HEADER.lower().encode()
    return next((value.decode() for name, value in headers if name.lower() == wanted), "")


class Opened:
    """Passes an answer on; a successful one is changed by `rewrite` and kept open."""

    def __init__(self, send: Send, rewrite: Callable[[Any, bytes], tuple[Any, bytes]]):
        self._send = send
        self._rewrite = rewrite
        self.continues = False
        self.headers: dict[bytes, bytes] = {}

    async def send(self, message: Message) -> None:
        """Take a message of the application as ASGI's `send`."""
        if message["type"] == "http.response.start":
            self.continues = message["status"] == 200
            headers = [(key.lower(), value) for key, value in message["headers"]]
            self.headers = dict(headers)
            if self.continues:
                kept = [pair for pair in headers if pair[0] != b"content-length"]
                headers, _ = self._rewrite([*kept, (b"x-accel-buffering", b"no")], b"")
                message = {**message, "headers": headers}
        elif self.continues:
            _, body = self._rewrite([], message.get("body", b""))
            message = {**message, "body": body, "more_body": True}
        await self._send(message)
