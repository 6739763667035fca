"""Events as server-sent events, of one session or of a whole job set.

The WSGI application makes the head of the answer and thereby checks permission. Logged events are
then read in slices; later ones come from the tail that all readers share. A reader, however slow,
holds no thread, no database connection and a bounded number of events.
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode
from uuid import UUID

from django.db import DatabaseError

from base.loglines.context import bind
from interfaces.rest.job_set_views import PROJECT_HEADER
from reprise.front.log_streams import (
    InThread,
    Message,
    Opened,
    Permission,
    Reader,
    Receive,
    Send,
    query_of,
    request_id_in,
)
from reprise.front.server_sent import TailEvent, sent_by_cursor, sent_by_id
from reprise.front.tail import Key, Subscription, Tail
from sessions_app.core.cursors import START, parse_cursor
from sessions_app.core.states import FINAL_STATUSES, WAITING_RETRY
from sessions_app.eventlog.reading import RETRY_EVENTS, LoggedEvent, job_set_events
from sessions_app.instruments import HELD
from sessions_app.selectors.followed import events_behind, project_key, session_followed

logger = logging.getLogger(__name__)

SESSION = re.compile(r"/api/v2/sessions/([0-9a-f-]{36})/events/")
JOB_SET = re.compile(r"/api/v2/job-sets/([^/]+)/events/")
SLICE = 500
"""Number of events read from the table at once."""
PING_SECONDS = 10.0
"""Seconds of silence after which a comment keeps the connection alive."""
HELLO = b"retry: 1000\n\n"
"""Tells browsers after how many milliseconds to reconnect."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A read of the table: the text to send, and whether more is there or none can come."""

    text: bytes
    more: bool
    over: bool = False


class Feed(Protocol):
    """The position of one reader in the log."""

    @property
    def key(self) -> Key:
        """Return the key to subscribe to at the tail."""
        ...

    def read(self) -> Slice:
        """Return the next slice from the table."""
        ...

    def take(self, news: Iterable[TailEvent]) -> tuple[bytes, bool]:
        """Return the text to send for these events, and whether to read the table again."""
        ...


class SessionFeed:
    """A session's events in the order of `seq`, which is that of ids; their SSE id is the event id.

    The tail may bring events in another order, or ones already read from the table. Events that do
    not continue what was sent are read from the table, where `seq` has no gaps.
    """

    def __init__(self, session_id: UUID, after: int):
        self.key = session_id
        self._after = after
        self._seq: int | None = None
        """`seq` of the last event that was passed; None before the first."""
        self._hides = False

    def read(self) -> Slice:
        """Return the next slice; `over` if the session has ended and no retry waits."""
        session = session_followed(self.key)
        over = session is None or (
            session.finished_at is not None and session.retry_state not in WAITING_RETRY
        )
        if session is not None:
            self._hides = session.retry_policy.get("emit_retry_events") is False
        found = list(events_behind(self.key, self._after)[:SLICE])
        if found:
            self._after, self._seq = found[-1].pk, found[-1].seq
        text = b"".join(sent_by_id(each) for each in found if self._shown(each.type))
        return Slice(text, len(found) == SLICE, over)

    def take(self, news: Iterable[TailEvent]) -> tuple[bytes, bool]:
        """Return the events that continue what was sent, and whether to read the table."""
        text: list[bytes] = []
        look = False
        for each in news:
            event = each.event
            if event.pk <= self._after:
                continue
            if self._seq is None or event.seq != self._seq + 1:
                return b"".join(text), True
            self._after, self._seq = event.pk, event.seq
            look |= _may_end(event)
            if self._shown(event.type):
                text.append(each.by_id)
        return b"".join(text), look

    def _shown(self, kind: str) -> bool:
        return not (self._hides and kind.startswith(RETRY_EVENTS))


def _may_end(event: LoggedEvent) -> bool:
    data = event.data
    return data.get("status") in FINAL_STATUSES or "retry_state" in data


class JobSetFeed:
    """A job set's events in order of visibility, with cursors as ids; endless."""

    def __init__(self, project: int, name: str, after: str):
        self.key = (project, name)
        self._after = parse_cursor(after) if after else START

    def read(self) -> Slice:
        """Return the next events."""
        found = job_set_events(*self.key, self._after, SLICE)
        if found:
            self._after = found[-1].cursor
        return Slice(b"".join(sent_by_cursor(each) for each in found), len(found) == SLICE)

    def take(self, news: Iterable[TailEvent]) -> tuple[bytes, bool]:
        """Return the events that the table did not give before."""
        fresh = [each for each in news if each.event.cursor > self._after]
        if fresh:
            self._after = fresh[-1].event.cursor
        return b"".join(each.by_cursor for each in fresh if not each.event.quiet), False


def wants_events(scope: Message) -> bool:
    """Return whether a request asks for events as a stream."""
    known = SESSION.fullmatch(scope["path"]) or JOB_SET.fullmatch(scope["path"])
    return known is not None and b"text/event-stream" in _header(scope, b"accept")


@dataclass(frozen=True, slots=True)
class Serving:
    """The parts of the front that streams use: the application behind it, its threads, its tail."""

    wsgi: Any
    in_thread: InThread
    tail: Tail


async def stream_events(scope: Message, receive: Receive, send: Send, serving: Serving) -> None:
    """Send the events after `Last-Event-ID` or `?after=`, and those to come.

    The stream ends when no event can come, when the server stops, when the database does not
    answer, or when the reader loses permission, which is checked every `stream_check_after`
    seconds.
    """
    after = _resume_point(scope)
    opened = Opened(send, _event_stream)
    await serving.wsgi(_as_json(scope, after), receive, opened.send)
    if not opened.continues:
        return
    bind(request_id=request_id_in(opened.headers.items()))
    reader = Reader(receive, send)
    try:
        feed = await serving.in_thread(_feed, scope, after, opened.headers)
        with HELD.labels("events").track_inprogress():
            await _Stream(scope, feed, reader, serving).run()
    except DatabaseError as error:
        logger.info("an event stream ended; its reader will connect again: %s", error)
    await reader.end()


class _Stream:
    """One reader: from the table to the tail, and back to the table when it falls behind."""

    def __init__(self, scope: Message, feed: Feed, reader: Reader, serving: Serving):
        self._scope = scope
        self._feed = feed
        self._reader = reader
        self._serving = serving
        self._now = asyncio.get_running_loop().time
        self._ping_at = self._now() + PING_SECONDS
        self._permission = Permission(serving.wsgi, _as_json(scope, ""))
        self._place: Subscription | None = None

    async def run(self) -> None:
        """Send events until the stream ends."""
        await self._reader.send(HELLO)
        try:
            while await self._goes_on():
                read = await self._serving.in_thread(self._feed.read)
                await self._send(read.text)
                if read.over and not read.more:
                    return
                if read.more:
                    continue
                if self._place is None or self._place.lapsed:
                    await self._subscribe()
                else:
                    await self._listen(self._place)
        finally:
            self._leave()

    async def _subscribe(self) -> None:
        """Subscribe to the tail; the table is read once more after that."""
        self._leave()
        place = self._place = self._serving.tail.subscribe(self._feed.key)
        self._reader.when_gone(place.news.set)
        while not (place.joined or place.lapsed) and await self._goes_on():
            await self._wait(place)

    async def _listen(self, place: Subscription) -> None:
        """Send new events until the table must be read again."""
        while not place.lapsed and await self._goes_on():
            text, look = self._feed.take(place.take())
            await self._send(text)
            if look:
                return
            await self._wait(place)

    async def _wait(self, place: Subscription) -> None:
        until = min(self._ping_at, self._permission.check_at)
        with suppress(TimeoutError):
            await asyncio.wait_for(place.news.wait(), max(0.0, until - self._now()))
        if self._now() >= self._ping_at:
            await self._send(b": ping\n\n")

    async def _send(self, text: bytes) -> None:
        if text:
            await self._reader.send(text)
            self._ping_at = self._now() + PING_SECONDS

    async def _goes_on(self) -> bool:
        if self._serving.tail.closing or self._reader.gone:
            return False
        return await self._permission.holds()

    def _leave(self) -> None:
        if self._place is not None:
            self._serving.tail.unsubscribe(self._place)


def _feed(scope: Message, after: str, headers: dict[bytes, bytes]) -> Feed:
    """Return the feed of the request, which the view has allowed."""
    session = SESSION.fullmatch(scope["path"])
    if session is not None:
        return SessionFeed(UUID(session[1]), int(after or 0))
    domain, _, name = headers[PROJECT_HEADER.lower().encode()].decode().partition("/")
    job_set = JOB_SET.fullmatch(scope["path"])
    return JobSetFeed(project_key(domain, name), job_set[1], after)  # type: ignore[index]


def _resume_point(scope: Message) -> str:
    """Return the position as the client sent it; the view refuses invalid values."""
    seen = _header(scope, b"last-event-id").decode("latin-1")
    return seen or query_of(scope).get("after", "")


def _as_json(scope: Message, after: str) -> Message:
    """Return the same request for the JSON list, whose status says whether the reader may read."""
    given = {name: value for name, value in query_of(scope).items() if name != "after"}
    query = {**given, "page_size": "1", **({"after": after} if after else {})}
    left_out = {b"accept", b"last-event-id"}
    headers = [pair for pair in scope["headers"] if pair[0] not in left_out]
    return {**scope, "headers": headers, "query_string": urlencode(query).encode()}


def _header(scope: Message, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _event_stream(headers: list[tuple[bytes, bytes]], _body: bytes) -> tuple[Any, bytes]:
    """Return the headers of the stream and no body: the events are read again as a stream."""
    left_out = {b"content-type", PROJECT_HEADER.lower().encode()}
    kept = [pair for pair in headers if pair[0] not in left_out]
    stream = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    return [*kept, *stream], b""
