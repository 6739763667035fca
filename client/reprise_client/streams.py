"""Logs and events as streams that resume after a cut connection."""

import codecs
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from reprise_client.answers import parsed
from reprise_client.errors import ApiError, InvalidAnswer, ServerUnreachable
from reprise_client.http_library import httpx
from reprise_client.models import Event
from reprise_client.outage import PAUSE_SECONDS, OutageTolerance
from reprise_client.transport import Transport

LOG_OFFSET_HEADER = "X-Reprise-Log-Offset"
EVENT_STREAM = "text/event-stream"

Piece = TypeVar("Piece")


def to_the_end(
    is_final: Callable[[], bool], stream: Callable[[], Iterator[Piece]]
) -> Iterator[Piece]:
    """Yield what `stream()` yields, and open it again after a cut, until the session's end.

    A stream may also end too early when the server stops. Only a stream that was opened after the
    session had ended is certainly complete.
    """
    outage = OutageTolerance()
    ended = False
    while True:
        try:
            final = is_final()
            outage.answered()
            if ended and not final:
                time.sleep(PAUSE_SECONDS)
            yield from stream()
        except (ServerUnreachable, ApiError) as error:
            outage.endure(error)
        else:
            if final:
                return
            ended = True


class LogReader:
    """Reads the growing log of one session; each `stream` continues after the previous one.

    It starts at byte `offset`, or `tail` lines before the present end.
    """

    def __init__(
        self, transport: Transport, session_id: str, *, offset: int = 0, tail: int | None = None
    ):
        self._transport = transport
        self._path = f"/sessions/{session_id}/logs/"
        self._position = offset
        self._tail = tail
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def stream(self) -> Iterator[str]:
        """Yield text as it arrives, to the end of one answer."""
        where = {"offset": self._position} if self._tail is None else {"tail": self._tail}
        with self._transport.stream(self._path, params={"follow": "true", **where}) as response:
            self._position = _first_offset(response, default=self._position)
            self._tail = None
            for chunk in response.iter_bytes():
                self._position += len(chunk)
                if text := self._decoder.decode(chunk):
                    yield text

    def rest(self) -> str:
        """Return the replacement for an incomplete character at the end of the log."""
        return self._decoder.decode(b"", final=True)


class EventReader:
    """Reads the events at `path`; each `stream` continues after the last event that came.

    `place` names the field of an event that holds its position.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        after: str | int | None = None,
        place: str = "id",
        params: Mapping[str, Any] | None = None,
    ):
        self._transport = transport
        self._path = path
        self._after = after
        self._place = place
        self._params = dict(params or {})

    def stream(self) -> Iterator[Event]:
        """Yield events as they arrive, to the end of one answer."""
        after = {} if self._after is None else {"after": self._after}
        params = {**self._params, **after}
        with self._transport.stream(self._path, params=params, accept=EVENT_STREAM) as response:
            for data in server_sent(response):
                event = parsed(Event, data, self._path)
                self._after = getattr(event, self._place)
                yield event

    def endless(self) -> Iterator[Event]:
        """Yield events as they arrive, for ever; ask again after every answer."""
        outage = OutageTolerance()
        while True:
            try:
                for event in self.stream():
                    outage.answered()
                    yield event
                outage.answered()
            except (ServerUnreachable, ApiError) as error:
                outage.endure(error)
            else:
                time.sleep(PAUSE_SECONDS)


def _first_offset(response: httpx.Response, *, default: int) -> int:
    offset = response.headers.get(LOG_OFFSET_HEADER, "")
    return int(offset) if offset.isdecimal() else default


def server_sent(response: httpx.Response) -> Iterator[Any]:
    """Yield the JSON of each `data` of an event stream (WHATWG HTML, section 9.2.6).

    Raises `InvalidAnswer` if the answer is no event stream or its data no JSON.
    """
    kind = response.headers.get("Content-Type", "")
    if not kind.startswith(EVENT_STREAM):
        raise InvalidAnswer(str(response.url), kind)
    data: list[str] = []
    for line in response.iter_lines():
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield _json(response, "\n".join(data))
            data = []


def _json(response: httpx.Response, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidAnswer(str(response.url), text[:200]) from error
