"""Answers that go on: a log, and a session's events as server-sent events.

The WSGI application gives the head of the answer and so checks who asks; the body is read in
slices, so that a reader, however slow, holds no thread and no database connection.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlencode
from uuid import UUID

from rest_framework.utils.encoders import JSONEncoder

from sessions_app.api.render import event_json
from sessions_app.models import Session
from sessions_app.selectors import session_events
from sessions_app.services.cancel import WAITING_RETRY
from sessions_app.services.logs import log_more

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
InThread = Callable[..., Awaitable[Any]]

LOGS = re.compile(r"/api/v2/sessions/([0-9a-f-]{36})/logs/")
EVENTS = re.compile(r"/api/v2/sessions/([0-9a-f-]{36})/events/")
PAUSE = 0.5
"""Seconds between looks for more."""
PING_EVERY = 20
"""Looks without news after which a comment keeps the connection alive."""
SLICE = 500


class Reader:
    """The other end: knows when it is gone."""

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
        """Wait a little, or until the reader is gone."""
        await asyncio.wait({self._gone}, timeout=PAUSE)

    @property
    def gone(self) -> bool:
        """Whether nobody reads any more."""
        return self._gone.done()

    def forget(self) -> None:
        """Stop looking whether the reader is there."""
        self._gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def wants_log(scope: Message) -> bool:
    """Whether a request is for a session's log."""
    return LOGS.fullmatch(scope["path"]) is not None


def _follows(scope: Message) -> bool:
    return _query(scope).get("follow", "false").lower() in {"true", "1", "yes", "on"}


def wants_events(scope: Message) -> bool:
    """Whether a request is for a session's events as a stream."""
    return EVENTS.fullmatch(scope["path"]) is not None and b"text/event-stream" in _header(
        scope, b"accept"
    )


async def send_log(
    scope: Message, receive: Receive, send: Send, wsgi: Any, in_thread: InThread, closing: Any
) -> None:
    """The log from where it is wanted; followed, also what is written until the session's end."""
    opened = Opened(send, _as_is)
    await wsgi({**scope, "method": "HEAD"}, receive, opened.send)
    if not opened.continues:
        return
    session_id = UUID(LOGS.fullmatch(scope["path"])[1])  # type: ignore[index]
    reader = Reader(receive, send)
    offset = int(opened.headers.get(b"x-reprise-log-offset", b"0"))
    final = not _follows(scope)
    while not closing() and not reader.gone:
        data, ended = await in_thread(log_more, session_id, offset)
        offset += len(data)
        if data:
            await reader.send(data)
        elif final:
            break
        else:
            # The end is believed at the second look: the last piece may just be on its way.
            final = ended
            await reader.pause()
    await reader.end()


async def stream_events(
    scope: Message, receive: Receive, send: Send, wsgi: Any, in_thread: InThread, closing: Any
) -> None:
    """A session's events after `Last-Event-ID` or `?after=`, and those to come.

    Ends when no more can come by themselves: the session is final and no retry waits.
    """
    after = _resume_point(scope)
    opened = Opened(send, _event_stream)
    await wsgi(_as_json(scope, after), receive, opened.send)
    if not opened.continues:
        return
    session_id = UUID(EVENTS.fullmatch(scope["path"])[1])  # type: ignore[index]
    reader = Reader(receive, send)
    last, quiet = int(after), 0
    while not closing() and not reader.gone:
        found, over = await in_thread(_events_after, session_id, last)
        if found:
            last, quiet = found[-1][0], 0
            await reader.send(b"".join(text for _, text in found))
            continue
        if over:
            break
        quiet += 1
        if quiet % PING_EVERY == 0:
            await reader.send(b": ping\n\n")
        await reader.pause()
    await reader.end()


def _events_after(session_id: UUID, after: int) -> tuple[list[tuple[int, bytes]], bool]:
    """The next events as (id, text), and whether none can follow them by itself."""
    wanted = Session.objects.only("id", "retry_policy", "retry_state", "finished_at")
    session = wanted.filter(pk=session_id).first()
    if session is None:
        return [], True
    over = session.finished_at is not None and session.retry_state not in WAITING_RETRY
    events = session_events(session).filter(pk__gt=after)[:SLICE]
    return [(event.pk, _server_sent(event_json(event))) for event in events], over


def _server_sent(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, cls=JSONEncoder)
    return f"id: {event['id']}\nevent: {event['type']}\ndata: {data}\n\n".encode()


def _resume_point(scope: Message) -> str:
    """As the client sent it: the view says what is wrong with a value that is no id."""
    seen = _header(scope, b"last-event-id").decode("latin-1")
    return seen or _query(scope).get("after", "0")


def _as_json(scope: Message, after: str) -> Message:
    """The same request for the JSON list, which says whether the reader may have the events."""
    query = {**_query(scope), "after": after, "page_size": "1"}
    headers = [pair for pair in scope["headers"] if pair[0] != b"accept"]
    return {**scope, "headers": headers, "query_string": urlencode(query).encode()}


def _query(scope: Message) -> dict[str, str]:
    found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}


def _header(scope: Message, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _as_is(headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[Any, bytes]:
    return headers, body


def _event_stream(headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[Any, bytes]:
    """The JSON answer only proved that there is one; the events are read again as a stream."""
    kept = [pair for pair in headers if pair[0] != b"content-type"]
    stream = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    return [*kept, *stream], b"" if body else body


class Opened:
    """Passes an answer on; a successful one is changed by `rewrite` and kept open."""

    def __init__(self, send: Send, rewrite: Callable[[Any, bytes], tuple[Any, bytes]]):
        self._send = send
        self._rewrite = rewrite
        self.continues = False
        self.headers: dict[bytes, bytes] = {}

    async def send(self, message: Message) -> None:
        """ASGI's `send`, for the application behind."""
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
