"""A web server in this process, and readers of its streams of events."""

import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
from django.core.wsgi import get_wsgi_application
from django.db import connection

from reprise.standalone.web import Web, listen
from sessions_app.core.cursors import Cursor, parse_cursor
from sessions_app.models import Project

PATIENCE = 180.0


@contextmanager
def served() -> Iterator[str]:
    """The URL of a front that serves the test's database."""
    with listen("127.0.0.1", 0) as listener:
        web = Web(get_wsgi_application(), listener)
        thresholds = gc.get_threshold()
        web.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v2/"
        finally:
            web.stop()
            # A server of its own process need not leave it as it was.
            gc.unfreeze()
            gc.set_threshold(*thresholds)


@dataclass(frozen=True)
class StreamEvent:
    """One event as it came."""

    place: str
    """What its stream goes on after."""
    data: dict[str, Any]

    @property
    def cursor(self) -> Cursor:
        return parse_cursor(self.place)


class EventReader(threading.Thread):
    """Reads a stream in a thread of its own until it ends, or until `leave`.

    With `cut_every` it hangs up after that many events and comes again behind the last one.
    """

    def __init__(self, url: str, token: str, *, after: str = "", cut_every: int = 0):
        super().__init__(daemon=True)
        self._url, self._token, self._after, self._cut_every = url, token, after, cut_every
        self._changed = threading.Condition()
        self._response: httpx.Response | None = None
        self._left = False
        self.events: list[StreamEvent] = []
        self.comments: list[str] = []
        self.status = 0
        self.problem: Any = None
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            again = True
            while again and not self._left:
                again = self._read()
        except httpx.HTTPError:
            pass  # the server has stopped, or this reader has left
        finally:
            self.ended.set()
            with self._changed:
                self._changed.notify_all()

    def _read(self) -> bool:
        """One answer; whether to come again."""
        place = self.events[-1].place if self.events else self._after
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
        if place:
            headers["Last-Event-ID"] = place
        got = 0
        timeout = httpx.Timeout(PATIENCE)
        with httpx.stream("GET", self._url, headers=headers, timeout=timeout) as response:
            self._response, self.status = response, response.status_code
            if response.status_code != 200:
                self.problem = json.loads(response.read())
                return False
            self.begun.set()
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if self._left:
                    return False
                name, _, value = line.partition(": ")
                if line.startswith(":"):
                    self._add(self.comments, line)
                elif line:
                    fields[name] = value
                elif "data" in fields:
                    self._add(self.events, StreamEvent(fields["id"], json.loads(fields["data"])))
                    fields, got = {}, got + 1
                    if self._cut_every and got == self._cut_every:
                        return True
        return False

    def _add(self, where: list[Any], what: Any) -> None:
        with self._changed:
            where.append(what)
            self._changed.notify_all()

    def wait(self, enough: Callable[["EventReader"], bool]) -> "EventReader":
        """Until enough has come; fails if the stream ends before."""
        with self._changed:
            done = self._changed.wait_for(lambda: enough(self) or self.ended.is_set(), PATIENCE)
        assert done, f"{len(self.events)} events after {PATIENCE} s"
        assert enough(self), f"the stream ended after {len(self.events)} events"
        return self

    def leave(self) -> None:
        """Hang up."""
        self._left = True
        if self._response is not None:
            # To close it would wait for the thread that reads from it.
            connection = self._response.extensions["network_stream"].get_extra_info("socket")
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


_WRITE = """
    INSERT INTO sessions_app_sessionevent
        (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    VALUES (%s, %s, %s, %s, 0, %s, 'session.running', clock_timestamp(), '{}') RETURNING id
"""


def write_event(
    project: Project,
    job_set: str,
    session_id: UUID | None = None,
    *,
    seq: int = 1,
    data: str = "{}",
) -> int:
    """An event, on this thread's connection and in its transaction; its id."""
    session_id = session_id or uuid4()
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, [session_id, session_id, project.pk, job_set, seq])
        return int(cursor.fetchone()[0])
